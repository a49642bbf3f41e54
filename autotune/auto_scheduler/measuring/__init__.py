"""Inputs and options of measuring, and the progress that a search prints."""
