"""Constraints of a space: filters traced to expressions, and the valid points that they leave."""
