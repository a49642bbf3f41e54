"""Detection of parallel loops that GCC 12 distributes into fills of memory in a wrong order.

GCC 12.2 distributes a parallel loop over neighbours in memory, whose body fills several places and
adds to them, into fills by ``memset`` and loops for the rest: of a sum with 31 fills some elements
were set to zero late, and so were those of one with a loop of five, which GCC unrolls. Without
library calls in place of loops the sum is right. 13 was not tried, and is treated alike, as are
older versions.
"""

from __future__ import annotations

from autotune.ir import Add, Expr, FloatImm, For, ForKind, IntImm, Stmt, Store, Var, walk

DISTRIBUTED_FILLS = "distributed_fills"
_WHOLE = """#if !defined(__clang__) && __GNUC__ < 14
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif
"""
HELPERS = {DISTRIBUTED_FILLS: _WHOLE}


def has_distributed_fills(body: Stmt) -> bool:
    """Return whether GCC may move fills of a function behind later statements."""
    loops = (n for n in walk(body) if isinstance(n, For) and n.kind is ForKind.PARALLEL)
    return any(_fills_several(loop) for loop in loops)


def _fills_several(loop: For) -> bool:
    """Whether an iteration has several fills: stores of their own, or one in a loop inside."""
    inner = (n for n in walk(loop.body) if isinstance(n, For))
    return _fills(loop.body, loop.var) > 1 or any(_fills(n.body, loop.var) for n in inner)


def _fills(body: Stmt, var: Var) -> int:
    """Return the number of stores of a constant whose index grows by one with a variable."""
    stores = (n for n in walk(body) if isinstance(n, Store))
    return sum(
        isinstance(store.value, IntImm | FloatImm) and _steps_by_one(store.indices[-1], var)
        for store in stores
    )


def _steps_by_one(index: Expr, var: Var) -> bool:
    if isinstance(index, Add):
        return _steps_by_one(index.a, var) or _steps_by_one(index.b, var)
    return index is var
