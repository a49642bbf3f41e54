"""Analytical cost models: what fits a device, estimated times and features, for many rows."""
