"""Extents: ints, or affine forms of sizes that are known only when the function is called.

Extents are ints wherever shapes are constant. A form represents an extent such as ``n`` or
``(n + 63) // 64``; products and quotients of forms are atoms.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine, AtomKind, constant, scale_affine, shift_affine
from autotune.ir.dtype import INDEX_DTYPE
from autotune.ir.expr import Expr, IntImm, IterVar, Mul, TruncDiv, TruncMod, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import For
from autotune.utils.math import ceil_div

Extent = int | Affine


class SymbolicSizes:
    """The sizes of one lowering, and the last values of loops whose number they decide."""

    def __init__(self) -> None:
        self.last: dict[Var, Affine] = {}

    def bind(self, simplifier: Simplifier, var: Var, extent: Extent) -> Affine:
        """Declare a variable that runs from 0 to ``extent - 1``; return its form."""
        if isinstance(extent, int):
            return simplifier.bind(var, 0, extent - 1)
        self.last[var] = shift_affine(extent, -1)
        return simplifier.bind(var, 0, float("inf"))

    def greatest(self, simplifier: Simplifier, form: Affine) -> Affine:
        """Return an upper bound of a form, in which no loop of unknown number is left."""
        if self.last.keys().isdisjoint(form.vars):
            return form
        parts: list[tuple[Affine, int]] = [(constant(form.const), 1)]
        for atom, k in form.terms.items():
            one = Affine({atom: 1}, 0)
            if atom.kind is AtomKind.VAR:
                (var,) = atom.vars
                last = self.last.get(var)
                one = one if last is None else last if k > 0 else constant(0)
            parts.append((one, k))
        return simplifier.combine(parts)

    def may_exceed(self, simplifier: Simplifier, form: Affine, extent: Extent) -> bool:
        """Return whether a form may be larger than an extent, as far as can be seen."""
        if isinstance(extent, int):
            return form.bounds[1] > extent
        return self.greatest(simplifier, simplifier.sub(form, extent)).bounds[1] > 0


def is_constant(extent: Extent) -> TypeGuard[int]:
    """Return whether an extent is known now."""
    return isinstance(extent, int)


def as_form(extent: Extent) -> Affine:
    """Return an extent as a form."""
    return constant(extent) if isinstance(extent, int) else extent


def as_extent(form: Affine) -> Extent:
    """Return a form as an extent: an int if it is one."""
    return form if form.terms else form.const


def expr_of(simplifier: Simplifier, extent: Extent) -> int | Expr:
    """Return an extent as an expression, or the int that it is."""
    return extent if isinstance(extent, int) else simplifier.expr(extent)


def repeats(extent: Extent) -> bool:
    """Return whether a loop may have more than one iteration."""
    return not isinstance(extent, int) or extent > 1


def same_extent(a: Extent, b: Extent) -> bool:
    """Return whether two extents are seen to be equal."""
    return as_form(a).key == as_form(b).key


def times(simplifier: Simplifier, form: Affine, extent: Extent) -> Affine:
    """Return ``form * extent``."""
    if isinstance(extent, int):
        return scale_affine(form, extent)
    if not form.terms:
        return scale_affine(extent, form.const)
    product = Mul(simplifier.expr(form), simplifier.expr(extent))
    return simplifier.form_of(product)


def ceil_divide(simplifier: Simplifier, extent: Extent, divisor: int) -> Extent:
    """Return ``ceil(extent / divisor)``."""
    if isinstance(extent, int):
        return ceil_div(extent, divisor)
    return as_extent(simplifier.floordiv(shift_affine(extent, divisor - 1), divisor))


def divide(simplifier: Simplifier, form: Affine, extent: Extent) -> tuple[Affine, Affine]:
    """Return quotient and remainder of a form, which is not negative, by an extent."""
    if isinstance(extent, int):
        return simplifier.floordiv(form, extent), simplifier.floormod(form, extent)
    a, b = simplifier.expr(form), simplifier.expr(extent)
    return simplifier.form_of(TruncDiv(a, b)), simplifier.form_of(TruncMod(a, b))


def axis_extent(simplifier: Simplifier, stage: str, axis: IterVar) -> Extent:
    """Return the extent of an axis of a compute.

    Raises:
        LoweringError: it is no 32-bit integer.
    """
    extent = axis.dom.extent if axis.dom is not None else None
    if isinstance(extent, IntImm):
        return extent.value
    if extent is None or extent.dtype != INDEX_DTYPE:
        raise LoweringError(
            f"{stage}: the extent of axis {axis.var.name!r} is {extent}; expected an integer, or "
            f"an expression of sizes of dtype {INDEX_DTYPE}"
        )
    return as_extent(simplifier.form(extent))


def constant_iterations(loop: For, how: str) -> int:
    """Return how often a loop runs that is carried out in a way that needs to know it.

    Raises:
        LoweringError: that is known only when the function is called.
    """
    found = loop.iterations
    if found is None:
        raise LoweringError(
            f"{how}: loop {loop.var.name!r} runs {loop.extent} times; expected a constant: split "
            "it by a constant factor, and take the inner loop"
        )
    return found


def known(extents: Iterable[Extent | Expr], what: str) -> list[int]:
    """Return extents that have to be known now.

    Raises:
        LoweringError: one of them is known only when the function is called.
    """
    found = []
    for extent in extents:
        if not isinstance(extent, int):
            raise LoweringError(f"{what}: expected constant extents, got one that is a size")
        found.append(extent)
    return found
