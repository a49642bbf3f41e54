"""Building and running trials."""
