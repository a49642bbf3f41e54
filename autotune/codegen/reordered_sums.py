"""Sums of which GCC before 14 would add some elements twice and others never.

GCC 12.2 vectorises a loop that adds several floats to one number in each turn, in their order.
Where these lie in memory in another order than they are added in, it adds wrong lanes:
``s += x[2 * i + 1]; s += x[2 * i];`` is wrong at ``-O3``. It was not seen where any of the arrays
that are multiplied is read upwards, nor for integers, products, maxima or vectors of our own.
Without vectors for loops the sum is right. 13 was not tried, and is treated alike, as are older
versions.

Several are added in a turn where inner loops were unrolled, by us or by GCC. So inner loops are
run here, on numbers, and the order of what they read is looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from autotune.ir import (
    Add,
    Allocate,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    For,
    ForKind,
    If,
    IntImm,
    LetStmt,
    Load,
    Mul,
    Seq,
    Stmt,
    Store,
    Sub,
    Var,
    walk,
)

REORDERED_SUMS = "reordered_sums"
_IN_ORDER = """#if !defined(__clang__) && __GNUC__ < 14
#pragma GCC optimize("no-tree-loop-vectorize")
#endif
"""
HELPERS = {REORDERED_SUMS: _IN_ORDER}
# GCC unrolls loops that go round at most so often (max-completely-peel-times), and so do we.
_MOST_UNROLLED = 16
# Sums of more elements in a turn are not vectorised as one.
_MOST_ADDED = 64

Numbers = dict[Var, int | None]
# Buffer and place of a sum -> what was loaded for each of its elements: where, by buffer.
Sums = dict[tuple[int, int], list[dict[int, int | None]]]


class _TooLong(Exception):
    """Too much is added in one turn."""


def has_reordered_sums(body: Stmt) -> bool:
    """Return whether sums of a function may come out wrong."""
    nodes = list(walk(body))
    if not any(isinstance(node, Store) and _adds_to_itself(node) for node in nodes):
        return False
    loops = (n for n in nodes if isinstance(n, For) and n.kind is not ForKind.UNROLLED)
    return any(_is_reordered(loop) for loop in loops)


def _adds_to_itself(store: Store) -> bool:
    """Whether it is ``s = s + ...`` of a number of floating point."""
    value = store.value
    if not isinstance(value, (Add, Sub)) or "float" not in value.dtype or "x" in value.dtype:
        return False
    sides = (value.a, value.b) if isinstance(value, Add) else (value.a,)
    return any(isinstance(side, Load) and side.buffer is store.buffer for side in sides)


def _is_reordered(loop: For) -> bool:
    sums: Sums = defaultdict(list)
    try:
        for store, numbers in _stores(loop.body, {}):
            place = _number(store.indices[-1], numbers)
            if place is None:
                continue
            read = {
                id(load.buffer): _number(load.indices[-1], numbers)
                for load in walk(store.value)
                if isinstance(load, Load) and load.buffer is not store.buffer
            }
            found = sums[id(store.buffer), place]
            found.append(read)
            if len(found) > _MOST_ADDED:
                return False
    except _TooLong:
        return False
    return any(_reads_downwards(read) for read in sums.values())


def _reads_downwards(read: list[dict[int, int | None]]) -> bool:
    """Whether no array is read upwards of those that are not read at one place alone."""
    orders = []
    for buffer in read[0]:
        places = [each.get(buffer) for each in read]
        known = [place for place in places if place is not None]
        if len(known) == len(places) and len(set(known)) > 1:
            orders.append(all(a <= b for a, b in pairwise(known)))
    return bool(orders) and not any(orders)


def _stores(stmt: Stmt, numbers: Numbers) -> Iterator[tuple[Store, Numbers]]:
    """Yield additions to sums in the order in which they run, with the values of inner loops.

    Raises:
        _TooLong: an inner loop stays a loop.
    """
    match stmt:
        case Store():
            if _adds_to_itself(stmt):
                yield stmt, numbers
        case Seq():
            for each in stmt.stmts:
                yield from _stores(each, numbers)
        case For():
            extent = stmt.extent
            if not isinstance(extent, IntImm) or extent.value > _MOST_UNROLLED:
                raise _TooLong
            for turn in range(extent.value):
                yield from _stores(stmt.body, {**numbers, stmt.var: turn})
        case If():
            yield from _stores(stmt.then, numbers)
            if stmt.other is not None:
                yield from _stores(stmt.other, numbers)
        case LetStmt():
            known = {**numbers, stmt.var: _number(stmt.value, numbers)}
            yield from _stores(stmt.body, known)
        case Allocate():
            yield from _stores(stmt.body, numbers)


def _number(index: Expr, numbers: Numbers) -> int | None:
    """Return the value of an index where outer loops are at 0; None if it is not that simple."""
    match index:
        case IntImm():
            return index.value
        case Var():
            return numbers.get(index, 0)
        case Cast():
            return _number(index.value, numbers)
        case Add() | Sub() | Mul() | FloorDiv() | FloorMod():
            a, b = _number(index.a, numbers), _number(index.b, numbers)
            return None if a is None or b is None else _combined(index, a, b)
    return None


def _combined(operator: Expr, a: int, b: int) -> int | None:
    match operator:
        case Add():
            return a + b
        case Sub():
            return a - b
        case Mul():
            return a * b
        case FloorDiv() if b:
            return a // b
        case FloorMod() if b:
            return a % b
    return None
