"""Detection of stores of 16-bit floats for which GCC emits an instruction that does not exist.

For CPUs with AVX512-FP16 GCC 12.2 makes ``y[i] = a > b ? x : 0`` of `_Float16` a store of one
element that writes zero where its mask says so, which an assembler refuses ("unsupported masking
for `vmovsh'"); so does 14.3 by reports. It was seen in loops of OpenMP only. Without conversion of
branches it stays a branch.
"""

from __future__ import annotations

from autotune.ir import Cast, Conditional, For, ForKind, Stmt, Store, walk

MASKED_HALVES = "masked_halves"
_BRANCHES = """#if !defined(__clang__) && __GNUC__ < 16 && defined(__AVX512FP16__)
#pragma GCC optimize("no-if-conversion")
#endif
"""
HELPERS = {MASKED_HALVES: _BRANCHES}


def has_masked_halves(body: Stmt) -> bool:
    """Return whether a parallel loop stores a 16-bit float that a condition chooses."""
    loops = (n for n in walk(body) if isinstance(n, For) and n.kind is ForKind.PARALLEL)
    stores = (n for loop in loops for n in walk(loop.body) if isinstance(n, Store))
    return any(_is_chosen_half(store) for store in stores)


def _is_chosen_half(store: Store) -> bool:
    if store.buffer.dtype != "float16":
        return False
    return any(
        isinstance(node, Conditional) or (isinstance(node, Cast) and node.value.dtype == "bool")
        for node in walk(store.value)
    )
