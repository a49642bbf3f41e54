"""Transposes, and embedding lookups."""
