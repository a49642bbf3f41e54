"""Processes that do the work, and what happens when one of them dies."""
