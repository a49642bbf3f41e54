"""The command line: `autotune`."""
