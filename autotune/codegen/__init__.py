"""From lowered functions to C and CUDA text.

`kernel_of_schedule` lowers a schedule and prints it, `kernel_of_function` prints what was lowered.
`c` and `cuda` are the dialects; `statements` and `expressions` walk the tree for both.
"""

from autotune.codegen.source import kernel_of_function, kernel_of_schedule

__all__ = ["kernel_of_function", "kernel_of_schedule"]
