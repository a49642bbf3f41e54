"""The check of kernels against the limits of a device, made before any text is written.

Threads and shared memory are known once loops are made, long before they are unrolled; `lower`
checks them then, so that a candidate of a tuning run that cannot work costs as little as it can.
Memory of warps counts only in a later check, when it is known what of it is no register.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from autotune.errors import InstantiationError
from autotune.ir.stmt import Stmt
from autotune.lowering.function import LoweredKernel
from autotune.lowering.passes.describe import describe_kernel
from autotune.lowering.passes.draft import Draft
from autotune.target import Limits

# A thread has 255 registers of 4 bytes; private arrays far beyond that spill so much that the
# kernel is of no use, and the driver may not find the memory to back them.
MOST_LOCAL_BYTES = 32 * 1024
MOST_VTHREADS = 4096


def check_limits(stmt: Stmt, draft: Draft) -> Stmt:
    """Refuses a kernel whose threads or memory break a limit of the device.

    Raises:
        InstantiationError: the message says which limit.
    """
    if draft.gpu and draft.limits is not None:
        kernel = describe_kernel(stmt, replace(draft, params=()))
        found = _violation(kernel, draft.limits)
        if found is not None:
            raise InstantiationError(found)
    return stmt


def _violation(kernel: LoweredKernel, limits: Limits) -> str | None:
    """Return which limit the threads or the memory of a kernel break; its body may be a draft."""
    for what, value, most in _measures(kernel, limits):
        if value > most:
            return f"{kernel.name}: {what} is {value}, at most {most} are possible"
    return None


def _measures(kernel: LoweredKernel, limits: Limits) -> Iterator[tuple[str, int, int]]:
    """Yield what is limited: its name, its value and the limit."""
    yield "threads per block", kernel.threads, limits.threads_per_block
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
