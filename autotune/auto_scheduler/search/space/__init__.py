"""Programs of a task, and their candidates as rows of integers: drawn, changed and mapped."""
