"""From an artifact to times: devices, the processes that own them, and what disturbs a time."""
