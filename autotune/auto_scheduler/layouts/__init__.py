"""Weights in the order in which a state reads them: which order that is, and the graph for it."""
