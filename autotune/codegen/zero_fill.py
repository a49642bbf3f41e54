"""Asynchronous copies that write zeros where a condition does not hold, as CUDA functions.

Padding is such a condition. A branch around a copy, with a store of zeros on its other side, costs
more than an instruction that reads nothing: a convolution of float16 took 4.14 us with branches
and 3.70 without on an H200 (64 to 64 channels, 56x56). The instruction has this as an operand (PTX
ISA, "cp.async", src-size); the function of ``cuda_pipeline.h`` takes only constants for it.
"""

from __future__ import annotations

from autotune.ir.expr import Broadcast, Expr, Imm, Ramp
from autotune.ir.stmt import AsyncCopy, If, Store
from autotune.ir.structure import same

COPY_OR_ZERO = "copy_or_zero"
# Bytes of the copies that are taken together with their zeros.
BYTES = 16

_TEXT = f"""\
static __device__ __forceinline__ void {COPY_OR_ZERO}(void* to, const void* from, bool copies) {{
#if defined(AUTOTUNE_EMULATE) || __CUDA_ARCH__ < 800
  __pipeline_memcpy_async(to, from, {BYTES}, copies ? 0 : {BYTES});
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], {BYTES}, %2;"
               :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(copies ? {BYTES} : 0)
               : "memory");
#endif
}}
"""


def zero_fill_helpers() -> dict[str, str]:
    """Return the function by name, as text."""
    return {COPY_OR_ZERO: _TEXT}


def zero_filled(node: If) -> AsyncCopy | None:
    """Return the copy that a condition chooses, if it chooses zeros in the same place else."""
    copy, other = node.then, node.other
    if not isinstance(copy, AsyncCopy) or not isinstance(other, Store) or copy.bytes != BYTES:
        return None
    start = other.indices[0]
    start = start.base if isinstance(start, Ramp) else start
    if other.buffer is not copy.dst or not same(start, copy.dst_index):
        return None
    return copy if _is_zero(other.value) else None


def _is_zero(value: Expr) -> bool:
    item = value.value if isinstance(value, Broadcast) else value
    return isinstance(item, Imm) and item.value == 0
