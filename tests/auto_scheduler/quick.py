"""Parameters of searches that take tenths of a second."""

QUICK = {"evolutionary_search_population": 128, "evolutionary_search_num_iters": 1}
