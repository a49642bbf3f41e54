"""How a built function is called: checks, streams, and launches that cost microseconds."""
