"""A device for one program at a time: locks that every program of the host sees."""
