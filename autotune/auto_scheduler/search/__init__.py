"""Search over the schedules of a task: programs, candidates as rows of integers, cost models."""
