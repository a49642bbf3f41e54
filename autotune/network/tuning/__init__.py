"""Tunes whole networks: allocates trials to functions within a budget, and compares finalists."""
