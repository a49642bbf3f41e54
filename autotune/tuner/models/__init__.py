"""Cost models of the tuners, and the choice of candidates by them."""
