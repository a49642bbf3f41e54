"""Detection of functions with guarded loads, whose stores GCC 12 vectorises wrongly.

GCC 12.2 vectorises neighbouring stores (SLP) of values that are loaded under a condition by masked
loads, and gives all of them the mask of the first: results are wrong. Without if-conversion it
masks no load. 11.3 does not do it; 13 was not tried, and is treated alike.

Stores are neighbours in one loop where a loop was unrolled, by us or by GCC. So a loop over one
store is left alone if it stays a loop: a choice between two arrays is several times as fast there
as without if-conversion.
"""

from __future__ import annotations

from autotune.ir import (
    Conditional,
    Expr,
    For,
    ForKind,
    If,
    IntImm,
    LetStmt,
    Load,
    Stmt,
    Store,
    walk,
)

GUARDED_LOADS = "guarded_loads"
_UNMASKED = """#if !defined(__clang__) && (__GNUC__ == 12 || __GNUC__ == 13)
#pragma GCC optimize("no-tree-loop-if-convert")
#endif
"""
HELPERS = {GUARDED_LOADS: _UNMASKED}
# GCC unrolls loops that go round at most so often (max-completely-peel-times).
_MOST_UNROLLED = 16


def has_guarded_loads(body: Stmt) -> bool:
    """Return whether the vectors of a function may come out wrong."""
    nodes = list(walk(body))
    if not any(isinstance(node, Conditional) for node in nodes):
        return False
    alone = {id(_lone_store(one.body)) for one in nodes if isinstance(one, For) and _stays(one)}
    for node in nodes:
        if isinstance(node, LetStmt) and _guards_a_load(node.value):
            return True
        if isinstance(node, Store) and id(node) not in alone and _guards_a_load(node.value):
            return True
    return False


def _stays(loop: For) -> bool:
    if loop.kind is ForKind.VECTORIZED:
        return True
    is_short = isinstance(loop.extent, IntImm) and loop.extent.value <= _MOST_UNROLLED
    return loop.kind is not ForKind.UNROLLED and not is_short


def _lone_store(stmt: Stmt) -> Store | None:
    """Return the only statement of a loop's body, if it is a store."""
    while isinstance(stmt, If) and stmt.other is None:
        stmt = stmt.then
    return stmt if isinstance(stmt, Store) else None


def _guards_a_load(value: Expr) -> bool:
    """Whether something is loaded under a condition which that condition does not load itself."""
    for node in walk(value):
        if isinstance(node, Conditional):
            known = {str(one) for one in walk(node.cond) if isinstance(one, Load)}
            branches = (one for branch in (node.then, node.other) for one in walk(branch))
            if any(isinstance(one, Load) and str(one) not in known for one in branches):
                return True
    return False
