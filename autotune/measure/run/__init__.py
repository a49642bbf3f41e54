"""Timing of artifacts: devices, the processes that own them, and what disturbs a measurement."""
