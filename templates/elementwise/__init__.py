"""Chains of elementwise operations, given as an expression."""
