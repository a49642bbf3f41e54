"""lower() and build(): from a schedule or source kernel to a callable module."""
