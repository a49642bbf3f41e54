"""Numbers that describe a configuration, for cost models."""
