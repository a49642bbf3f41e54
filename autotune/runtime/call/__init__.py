"""Calls of built functions: checks, streams, and launches that cost microseconds."""
