"""Substitutes values for variables of an affine form, many at a time (for unrolling).

Copies differ by what a variable adds to sums, so the copies of ``x // c`` are shifts of at most
``c`` forms, and those of ``x % c`` are at most ``c`` forms. Each of these is simplified once; all
other copies cost a few lookups, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable

from autotune.ir.analysis_affine import Affine, AffineSpace, Atom, AtomKind
from autotune.ir.expr import Var

Values = tuple[int, ...]
# A form and what is added to it; copies that differ by a number only share the form.
Moved = tuple[Affine, int]
MakeForm = Callable[[Values], Moved]


def form_copies(space: AffineSpace, form: Affine, free: tuple[Var, ...]) -> MakeForm | None:
    """Return the function from values of the variables ``free`` to the copy of ``form``.

    Copies equal those of `AffineSpace.substitute`. None if an expression that is not affine
    depends on one of the variables.
    """
    kept: dict[Atom, int] = {}
    steps: list[tuple[int, int]] = []
    parts: list[tuple[MakeForm, int]] = []
    for atom, k in form.terms.items():
        if atom.vars.isdisjoint(free):
            kept[atom] = k
        elif atom.kind is AtomKind.VAR:
            (var,) = atom.vars
            steps.append((free.index(var), k))
        else:
            part = _atom_copies(space, atom, free)
            if part is None:
                return None
            parts.append((part, k))
    return _sum(space, kept, form.const, steps, parts)


def plain_steps(form: Affine, free: tuple[Var, ...]) -> list[tuple[Var, int, int]] | None:
    """Return the variables in a form, their places in ``free``, and what a step of each adds.

    None if another atom depends on one of them.
    """
    found = []
    for atom, k in form.terms.items():
        if atom.kind is AtomKind.VAR:
            (var,) = atom.vars
            if var in free:
                found.append((var, free.index(var), k))
        elif not atom.vars.isdisjoint(free):
            return None
    return found


def _sum(
    space: AffineSpace,
    kept: dict[Atom, int],
    const: int,
    steps: list[tuple[int, int]],
    parts: list[tuple[MakeForm, int]],
) -> MakeForm:
    base = Affine(kept, 0)
    known: dict[tuple[Affine, ...], Affine] = {}

    def shift(values: Values) -> int:
        offset = const
        for i, k in steps:
            offset += k * values[i]
        return offset

    def make(values: Values) -> Moved:
        offset = shift(values)
        forms = []
        for part, k in parts:
            form, more = part(values)
            forms.append(form)
            offset += k * more
        key = tuple(forms)
        whole = known.get(key)
        if whole is None:
            factors = [k for _, k in parts]
            whole = space.combine([(base, 1), *zip(forms, factors, strict=True)])
            known[key] = whole
        return whole, offset

    return make if parts else lambda values: (base, shift(values))


def _atom_copies(space: AffineSpace, atom: Atom, free: tuple[Var, ...]) -> MakeForm | None:
    """Return the function from values to the copy of a quotient or remainder."""
    inner = form_copies(space, atom.form, free) if atom.form is not None else None
    if inner is None:
        return None
    divisor, is_quotient = atom.divisor, atom.kind is AtomKind.DIV
    divide = space.floordiv if is_quotient else space.floormod
    known: dict[Moved, Affine] = {}

    def make(values: Values) -> Moved:
        form, offset = inner(values)
        whole, rest = divmod(offset, divisor)
        key = (form, rest)
        divided = known.get(key)
        if divided is None:
            divided = known[key] = divide(Affine(form.terms, form.const + rest), divisor)
        return divided, whole if is_quotient else 0

    return make
