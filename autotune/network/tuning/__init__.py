"""Tuning whole networks: tasks as arms, rounds of trials, a budget, and races of the best."""
