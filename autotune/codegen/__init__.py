"""From lowered functions to C and CUDA text."""

from autotune.codegen.packed import constants_filler, filler_name, packed_calls, packed_name
from autotune.codegen.source import kernel_of_function, kernel_of_schedule

__all__ = [
    "constants_filler",
    "filler_name",
    "kernel_of_function",
    "kernel_of_schedule",
    "packed_calls",
    "packed_name",
]
