"""Search over the schedules of a task: sketches, rows of integers, and what ranks them."""
