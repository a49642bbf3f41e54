"""The thread that accesses an element of a shared buffer, as far as the index shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf

from autotune.ir.analysis_affine import Affine, AtomKind
from autotune.ir.expr import Var
from autotune.lowering.plan import Thread

# A thread's variable, its weight in an index, and its extent.
Digit = tuple[Var, int, int]


@dataclass(frozen=True)
class Owner:
    """The threads in the order of their digits in the index, with their weights and extents.

    Element ``e`` belongs to the thread whose digits those of ``e % span`` are.
    """

    digits: tuple[Digit, ...]
    span: int


@dataclass(frozen=True)
class Slot:
    """One of ``count`` copies of a pipelined buffer: number ``(var + offset) % count``.

    ``var`` is that of the loop that the pipeline runs in.
    """

    var: Var
    offset: int
    count: int

    def differs(self, later: Slot, step: int) -> bool:
        """Return whether this and the slot used ``step`` iterations later are never the same."""
        if self.var is not later.var or self.count != later.count:
            return False
        return (later.offset + step - self.offset) % self.count != 0


def owner_of(
    form: Affine, distance: int, block: Sequence[Thread], below: Mapping[Var, int]
) -> Owner | None:
    """Return the owner of element ``form`` and those up to a distance, if it is known.

    The threads' terms must be digits of a mixed-radix number; all else is either below the
    smallest of them, or a multiple of them all. ``below`` holds the largest values of variables
    that conditions around have limited.
    """
    extents = {thread.var: thread.count for thread in block}
    digits = _digits_of(form, extents)
    if digits is None:
        return None
    step, span = digits[0][1], digits[-1][1] * digits[-1][2]
    low = form.const + min(distance, 0)
    high = form.const + max(distance, 0)
    for atom, k in form.terms.items():
        if not atom.vars.isdisjoint(extents) or k % span == 0:
            continue
        most = atom.high
        if atom.kind is AtomKind.VAR:
            (var,) = atom.vars
            most = min(most, below.get(var, most))
        if isinf(atom.low) or isinf(most):
            return None
        low += int(k * (atom.low if k > 0 else most))
        high += int(k * (most if k > 0 else atom.low))
    if low < 0 or high >= step:
        return None
    return Owner(digits, span)


def _digits_of(form: Affine, extents: Mapping[Var, int]) -> tuple[Digit, ...] | None:
    """Returns the threads' terms as digits, the lowest first; None where they are none."""
    weights = {}
    for atom, k in form.terms.items():
        if atom.vars.isdisjoint(extents):
            continue
        if atom.kind is not AtomKind.VAR or k <= 0:
            return None
        (var,) = atom.vars
        weights[var] = k
    if len(weights) != len(extents):
        return None
    digits = sorted(((v, k, extents[v]) for v, k in weights.items()), key=lambda digit: digit[1])
    span = digits[0][1]
    for _, weight, extent in digits:
        if weight != span:
            return None
        span *= extent
    return tuple(digits)
