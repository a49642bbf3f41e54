"""Is an answer right? References with error bounds, and the comparison with them."""
