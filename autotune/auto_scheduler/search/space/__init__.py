"""The search space: programs of a task, and their candidates, which are rows of integers."""
