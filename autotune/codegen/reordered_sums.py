"""Detection of sums of which GCC before 14 adds some elements twice and others never.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    While,
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


@dataclass(frozen=True)
class _Index:
    """An index as a sum of variables times numbers; without these it is only the expression.

    Indices are evaluated in each turn of all inner loops, so they are taken apart before.
    """

    whole: Expr
    terms: tuple[tuple[Var, int], ...] | None
    constant: int = 0

    def at(self, numbers: Numbers) -> int | None:
        """Return the value where outer loops are at 0; None if it is not that simple."""
        if self.terms is None:
            return _number(self.whole, numbers)
        total = self.constant
        for variable, factor in self.terms:
            value = numbers.get(variable, 0)
            if value is None:
                return None
            total += factor * value
        return total


@dataclass(frozen=True)
class _Addition:
    """An addition to a sum: where that is, and what other buffers are loaded for it, and where."""

    buffer: int
    place: _Index
    loads: tuple[tuple[int, _Index], ...]


Additions = Mapping[int, _Addition]


def has_reordered_sums(body: Stmt) -> bool:
    """Return whether sums of a function may come out wrong."""
    nodes = list(walk(body))
    additions = {
        id(node): _addition(node)
        for node in nodes
        if isinstance(node, Store) and _adds_to_itself(node)
    }
    if not additions:
        return False
    loops = (n for n in nodes if isinstance(n, For) and n.kind is not ForKind.UNROLLED)
    return any(_is_reordered(loop, additions) for loop in loops)


def _adds_to_itself(store: Store) -> bool:
    """Whether it is ``s = s + ...`` of a number of floating point."""
    value = store.value
    if not isinstance(value, (Add, Sub)) or "float" not in value.dtype or "x" in value.dtype:
        return False
    sides = (value.a, value.b) if isinstance(value, Add) else (value.a,)
    return any(isinstance(side, Load) and side.buffer is store.buffer for side in sides)


def _addition(store: Store) -> _Addition:
    loads = tuple(
        (id(load.buffer), _index(load.indices[-1]))
        for load in walk(store.value)
        if isinstance(load, Load) and load.buffer is not store.buffer
    )
    return _Addition(id(store.buffer), _index(store.indices[-1]), loads)


def _is_reordered(loop: For, additions: Additions) -> bool:
    if _has_a_long_loop(loop.body):
        return False
    sums: Sums = defaultdict(list)
    for one, numbers in _made(loop.body, {}, additions):
        place = one.place.at(numbers)
        if place is None:
            continue
        found = sums[one.buffer, place]
        found.append({buffer: index.at(numbers) for buffer, index in one.loads})
        if len(found) > _MOST_ADDED:
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


def _has_a_long_loop(stmt: Stmt) -> bool:
    """Whether a loop stays one, and with it those around it."""
    match stmt:
        case Seq():
            return any(map(_has_a_long_loop, stmt.stmts))
        case For():
            extent = stmt.extent
            long = not isinstance(extent, IntImm) or extent.value > _MOST_UNROLLED
            return long or _has_a_long_loop(stmt.body)
        case While():
            return True
        case If():
            other = stmt.other is not None and _has_a_long_loop(stmt.other)
            return other or _has_a_long_loop(stmt.then)
        case LetStmt() | Allocate():
            return _has_a_long_loop(stmt.body)
    return False


def _made(
    stmt: Stmt, numbers: Numbers, additions: Additions
) -> Iterator[tuple[_Addition, Numbers]]:
    """Yield additions to sums in the order in which they run, with the values of inner loops."""
    match stmt:
        case Store():
            if id(stmt) in additions:
                yield additions[id(stmt)], numbers
        case Seq():
            for each in stmt.stmts:
                yield from _made(each, numbers, additions)
        case For():
            assert isinstance(stmt.extent, IntImm), "loops that stay are not looked into"
            for turn in range(stmt.extent.value):
                yield from _made(stmt.body, {**numbers, stmt.var: turn}, additions)
        case If():
            yield from _made(stmt.then, numbers, additions)
            if stmt.other is not None:
                yield from _made(stmt.other, numbers, additions)
        case LetStmt():
            known = {**numbers, stmt.var: _number(stmt.value, numbers)}
            yield from _made(stmt.body, known, additions)
        case Allocate():
            yield from _made(stmt.body, numbers, additions)


def _index(index: Expr) -> _Index:
    parts = _affine(index)
    if parts is None:
        return _Index(index, None)
    constant, factors = parts
    return _Index(index, tuple(factors.items()), constant)


def _affine(index: Expr) -> tuple[int, dict[Var, int]] | None:
    """Return a constant and a factor for each variable; None of what is not their sum."""
    match index:
        case IntImm():
            return index.value, {}
        case Var():
            return 0, {index: 1}
        case Cast():
            return _affine(index.value)
        case Add() | Sub():
            a, b = _affine(index.a), _affine(index.b)
            if a is None or b is None:
                return None
            sign = -1 if isinstance(index, Sub) else 1
            factors = dict(a[1])
            for variable, factor in b[1].items():
                factors[variable] = factors.get(variable, 0) + sign * factor
            return a[0] + sign * b[0], factors
        case Mul():
            a, b = _affine(index.a), _affine(index.b)
            if a is None or b is None or (a[1] and b[1]):
                return None
            (constant, factors), factor = (a, b[0]) if a[1] else (b, a[0])
            return constant * factor, {v: each * factor for v, each in factors.items()}
    return None


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
