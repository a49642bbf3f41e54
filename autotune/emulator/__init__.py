"""CUDA kernels on the CPU: compiled by the host C++ compiler and run block by block.

For checking that kernels are right where there is no GPU, never for timing. `compile_emulated`
makes a shared library of one or more CUDA kernels, `EmulatedKernel` runs one of them on arrays.
"""

from autotune.emulator.build import compile_emulated, emulated, emulated_together
from autotune.emulator.guard import GuardedBuffer
from autotune.emulator.launch import EmulatedKernel, run_emulated

__all__ = [
    "EmulatedKernel",
    "GuardedBuffer",
    "compile_emulated",
    "emulated",
    "emulated_together",
    "run_emulated",
]
