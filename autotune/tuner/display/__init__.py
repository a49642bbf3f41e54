"""Views of a running search: the progress bar, and the live page."""
