"""Learned cost models: corrections of the analytical estimates, from measured trials."""
