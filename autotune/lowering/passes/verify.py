"""The check of kernels against the limits of a device, made before any text is written.

Threads and shared memory are known once loops are made, long before they are unrolled; `lower`
checks them then, so that a candidate of a tuning run that cannot work costs as little as it can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autotune.errors import InstantiationError
from autotune.ir.dtype import bits_of, lanes_of
from autotune.ir.expr import Load
from autotune.ir.stmt import Stmt, Store
from autotune.ir.visitor import Visitor
from autotune.lowering.function import LoweredFunction, LoweredKernel
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.finish import describe_kernel
from autotune.target import Limits, Target

# A thread has 255 registers of 4 bytes; private arrays far beyond that spill so much that the
# kernel is of no use, and the driver may not find the memory to back them.
MOST_LOCAL_BYTES = 32 * 1024
MOST_VTHREADS = 4096
VECTOR_BYTES = 16


def verify_gpu(
    lowered: LoweredFunction, limits: Limits, target: Target | None = None
) -> str | None:
    """Return in words which limit a kernel breaks, or None if all fit.

    Args:
        lowered: the function; one for a CPU breaks nothing.
        limits: of the device.
        target: may lower the number of threads by its option ``-max_num_threads``.
    """
    if not lowered.on_gpu:
        return None
    most_threads = limits.threads_per_block
    if target is not None:
        most_threads = min(most_threads, target.max_num_threads)
    for kernel in lowered.kernels:
        found = launch_violation(kernel, limits, most_threads) or _vector_violation(kernel)
        if found is not None:
            return found
    return None


def check_limits(stmt: Stmt, draft: Draft) -> Stmt:
    """Refuses a kernel whose threads or memory break a limit of the device.

    Raises:
        InstantiationError: the message says which limit.
    """
    if draft.gpu and draft.limits is not None:
        kernel = describe_kernel(stmt, replace(draft, params=()))
        found = launch_violation(kernel, draft.limits, draft.limits.threads_per_block)
        if found is not None:
            raise InstantiationError(found)
    return stmt


def launch_violation(kernel: LoweredKernel, limits: Limits, most_threads: int) -> str | None:
    """Return which limit the threads or the memory of a kernel break; its body may be a draft."""
    for what, value, most in _measures(kernel, limits, most_threads):
        if value > most:
            return f"{kernel.name}: {what} is {value}, at most {most} are possible"
    return None


def _vector_violation(kernel: LoweredKernel) -> str | None:
    widest = _Widest()
    widest.visit(kernel.body)
    if widest.bytes > VECTOR_BYTES:
        return (
            f"{kernel.name}: bytes of a vector is {widest.bytes}, at most {VECTOR_BYTES} are "
            "possible"
        )
    return None


def _measures(
    kernel: LoweredKernel, limits: Limits, most_threads: int
) -> Iterator[tuple[str, int, int]]:
    """Yield what is limited: its name, its value and the limit."""
    yield "threads per block", kernel.threads, most_threads
    for kind, sizes, most in (
        ("threadIdx", kernel.block, limits.block_dim),
        ("blockIdx", kernel.grid, limits.grid_dim),
    ):
        for d, value, limit in zip("xyz", sizes, most, strict=True):
            if isinstance(value, int):
                yield f"extent of {kind}.{d}", value, limit
    optin = max(limits.shared_bytes, limits.shared_bytes_optin)
    yield "bytes of shared memory per block", kernel.shared_bytes, optin
    yield "bytes of private arrays per thread", kernel.local_bytes, MOST_LOCAL_BYTES
    yield "virtual threads", kernel.vthreads, MOST_VTHREADS


class _Widest(Visitor):
    """Finds the widest vector that is loaded or stored."""

    def __init__(self) -> None:
        self.bytes = 0

    def visit_Load(self, node: Load) -> None:
        """Measure a load."""
        self._see(node.dtype)

    def visit_Store(self, node: Store) -> None:
        """Measure a store and what it loads."""
        lanes = lanes_of(node.value.dtype)
        if lanes > 1:
            self._see(node.value.dtype)
        self.visit(node.value)

    def _see(self, dtype: str) -> None:
        lanes = lanes_of(dtype)
        if lanes > 1:
            self.bytes = max(self.bytes, lanes * bits_of(dtype) // 8)
