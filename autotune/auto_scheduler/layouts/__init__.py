"""Layout rewrite: constant weights stored in the order in which the tuned loops read them."""
