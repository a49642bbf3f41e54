"""Models that rank configurations before they are measured."""
