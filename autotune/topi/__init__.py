"""Operators written as tensor expressions."""
