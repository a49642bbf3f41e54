"""Expressions, statements, and the passes on them that need nothing else."""
