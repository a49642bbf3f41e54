"""Verification of results: references with error bounds, and the comparison with them."""
