"""TVM's `tir.analysis`: checks of lowered functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autotune.errors import LoweringError
from autotune.lowering import LoweredFunction, LoweredKernel
from autotune.tvm.ir.structural import structural_equal as expr_deep_equal
from autotune.utils.check import Check

__all__ = ["expr_deep_equal", "verify_gpu_code"]

# What a kernel has of what a limit is of.
_MEASURES: Mapping[str, Callable[[LoweredKernel], int]] = {
    "max_local_memory_per_block": lambda kernel: kernel.local_bytes,
    "max_shared_memory_per_block": lambda kernel: kernel.shared_bytes,
    "max_thread_x": lambda kernel: kernel.block[0],
    "max_thread_y": lambda kernel: kernel.block[1],
    "max_thread_z": lambda kernel: kernel.block[2],
    "max_threads_per_block": lambda kernel: kernel.threads,
    "max_vthread": lambda kernel: kernel.vthreads,
}


def verify_gpu_code(func: object, constraints: Mapping[str, int]) -> bool:
    """Return whether the kernels of a function keep within limits.

    Trials need no such check: what a device cannot launch is rejected before it is compiled.

    Args:
        func: what `tvm.lower` returns, or its item "main".
        constraints: limits by TVM's names, such as ``max_threads_per_block``, and ``max_kernels``.

    Raises:
        LoweringError: it is no such function, or there is no such limit.
    """
    check = Check(LoweringError, "verify_gpu_code")
    check.kind("func", func, LoweredFunction, "what tvm.lower returns")
    check.kind("constraints", constraints, Mapping, "a dict of limits")
    assert isinstance(func, LoweredFunction)
    for name, most in constraints.items():
        check.one_of("constraints", name, (*_MEASURES, "max_kernels"))
        if name == "max_kernels":
            found = len(func.kernels)
        else:
            found = max((_MEASURES[name](kernel) for kernel in func.kernels), default=0)
        if found > int(most):
            return False
    return True
