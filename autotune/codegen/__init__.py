"""From lowered functions to C and CUDA text."""

from autotune.codegen.source import kernel_of_function, kernel_of_schedule

__all__ = ["kernel_of_function", "kernel_of_schedule"]
