"""Permutations of axes, and rows taken by their numbers."""
