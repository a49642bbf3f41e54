"""What is measured, with which options, and what a search prints of it."""
