"""Accesses of memory that the threads of a block share, and whether two of them lie apart."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from math import isinf

from autotune.ir.analysis_affine import Affine, Atom, AtomKind
from autotune.ir.expr import Expr, Ramp, Var
from autotune.ir.interval import Bound
from autotune.ir.stmt import Buffer
from autotune.lowering.passes.ownership import Owner, Slot


@dataclass(frozen=True)
class Access:
    """One read or write of common memory; owner and slot are None where they are unknown.

    ``alone`` says that conditions around leave just the first thread of the block.

    ``low`` and ``high`` are the ends of the elements that it may touch, ``index`` the first of
    those that it touches at a time. ``below`` holds the greatest values of the variables in it
    that conditions around the access limit.
    """

    buffer: Buffer
    is_write: bool
    index: Affine
    low: Bound
    high: Bound
    owner: Owner | None
    slot: Slot | None
    alone: bool
    below: Mapping[Var, int]

    @property
    def is_plain(self) -> bool:
        """Whether nothing but variables decides which element it is."""
        return all(atom.kind is AtomKind.VAR for atom in self.index.terms)


def elements(index: Expr) -> tuple[Expr, int]:
    """Return the first element that an index names, and the distance to its last one."""
    if isinstance(index, Ramp):
        return index.base, index.stride * (index.lanes - 1)
    return index, 0


def index_bounds(index: Affine, below: Mapping[Var, int]) -> tuple[Bound, Bound]:
    """Return the bounds of an index, given the greatest values of some of its variables."""
    if not below:
        return index.bounds
    low: Bound = index.const
    high: Bound = index.const
    for atom, k in index.terms.items():
        least, most = _term_bounds(atom, k, below)
        low, high = low + least, high + most
    return low, high


def lie_apart(a: Access, b: Access, fixed: Set[Var], var: Var | None = None) -> bool:
    """Return whether the elements of two accesses are seen to lie apart.

    Args:
        a: an access of any thread.
        b: an access of any other thread.
        fixed: the variables that have one value in both, as those of loops around both have; what
            they add to both indices does not count.
        var: if given, the variable of a loop that has different values in the two; they are apart
            if one step of it exceeds all the rest.
    """
    lows, highs, steps = [], [], []
    for access, other in ((a, b), (b, a)):
        low, high = access.low, access.high
        for atom, k in access.index.terms.items():
            moves = var in atom.vars
            if not moves and not (atom.vars <= fixed and other.index.terms.get(atom) == k):
                continue
            least, most = _term_bounds(atom, k, access.below)
            if atom.kind is not AtomKind.VAR or isinf(least) or isinf(most):
                return False
            if moves:
                steps.append(k)
            low, high = low - least, high - most
        lows.append(low)
        highs.append(high)
    if var is None:
        return highs[0] < lows[1] or highs[1] < lows[0]
    return len(steps) == 2 and steps[0] == steps[1] and max(highs) - min(lows) < abs(steps[0])


def _term_bounds(atom: Atom, k: int, below: Mapping[Var, int]) -> tuple[Bound, Bound]:
    most = atom.high
    if atom.kind is AtomKind.VAR:
        (var,) = atom.vars
        most = min(most, below.get(var, most))
    one, other = k * atom.low, k * most
    return min(one, other), max(one, other)
