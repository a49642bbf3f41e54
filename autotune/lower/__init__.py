"""From a schedule to a loop nest to a kernel."""
