"""Where a condition can hold: without some of its variables, and for which values of one.

Both look at comparisons of affine forms only, and take any other condition for one that may hold
anywhere. A condition is taken for true rather than for false wherever that is not known.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from itertools import product
from math import isinf

from autotune.ir.affine_builder import FALSE, TRUE
from autotune.ir.analysis_affine import Affine, AtomKind, constant, scale_affine, shift_affine
from autotune.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    And,
    CompareOp,
    Expr,
    IntImm,
    Load,
    Not,
    Or,
    ProducerLoad,
    Var,
)
from autotune.ir.simplify import Simplifier
from autotune.ir.structure import walk

# Alternatives of one condition; one that has more may hold anywhere.
_MOST_RANGES = 16


@dataclass(frozen=True)
class Range:
    """The values from the greatest of ``lows`` up to, and without, the least of ``highs``.

    ``exact`` says whether a condition holds for all of them, not for these at most.
    """

    lows: tuple[Affine, ...] = ()
    highs: tuple[Affine, ...] = ()
    exact: bool = True


_ANYWHERE = Range(exact=False)


def relaxed(simplifier: Simplifier, condition: Expr, gone: Set[Var]) -> Expr:
    """Returns what holds wherever a condition does for some values of the variables ``gone``."""
    match condition:
        case IntImm():
            return TRUE if condition.value else FALSE
        case And(a, b):
            return And.fold(relaxed(simplifier, a, gone), relaxed(simplifier, b, gone))
        case Or(a, b):
            return Or.fold(relaxed(simplifier, a, gone), relaxed(simplifier, b, gone))
        case _:
            forms = [_least(form, gone) for form in _not_positive(simplifier, condition)]
            known = [form for form in forms if form is not None]
            return simplifier.conjunction([simplifier.condition("<=", form) for form in known])


def ranges(simplifier: Simplifier, condition: Expr, var: Var) -> list[Range]:
    """Returns the ranges of a variable of which one holds it where a condition holds."""
    match condition:
        case IntImm():
            return [Range()] if condition.value else []
        case And(a, b):
            pairs = product(ranges(simplifier, a, var), ranges(simplifier, b, var))
            found = [
                Range((*x.lows, *y.lows), (*x.highs, *y.highs), x.exact and y.exact)
                for x, y in pairs
            ]
        case Or(a, b):
            found = [*ranges(simplifier, a, var), *ranges(simplifier, b, var)]
        case _:
            found = [_range(simplifier, _not_positive(simplifier, condition), var)]
    return found if len(found) <= _MOST_RANGES else [_ANYWHERE]


def without_not(condition: Expr) -> Expr:
    """Returns an equal condition in which nothing but comparisons that are no order is negated."""
    match condition:
        case And(a, b):
            return And.fold(without_not(a), without_not(b))
        case Or(a, b):
            return Or.fold(without_not(a), without_not(b))
        case Not(And(a, b)):
            return Or.fold(without_not(Not(a)), without_not(Not(b)))
        case Not(Or(a, b)):
            return And.fold(without_not(Not(a)), without_not(Not(b)))
        case Not(Not(a)):
            return without_not(a)
        case Not(LT(a, b)) if a.dtype == "int32":
            return GE(a, b)
        case Not(LE(a, b)) if a.dtype == "int32":
            return GT(a, b)
        case Not(GT(a, b)) if a.dtype == "int32":
            return LE(a, b)
        case Not(GE(a, b)) if a.dtype == "int32":
            return LT(a, b)
        case _:
            return condition


def _not_positive(simplifier: Simplifier, condition: Expr) -> list[Affine]:
    """Return the forms that are at most 0 where, and only where, a comparison holds; or none."""
    if not isinstance(condition, LT | LE | GT | GE | EQ) or not _is_plain(condition):
        return []
    a, b = simplifier.form(condition.a), simplifier.form(condition.b)
    less, more = simplifier.sub(a, b), simplifier.sub(b, a)
    match condition:
        case LT():
            return [shift_affine(less, 1)]
        case LE():
            return [less]
        case GT():
            return [shift_affine(more, 1)]
        case GE():
            return [more]
        case _:
            return [less, more]


def _is_plain(condition: CompareOp) -> bool:
    """Return whether a comparison is of arithmetic on variables of loops."""
    nodes = list(walk(condition))
    return condition.a.dtype == "int32" and not any(
        isinstance(node, Load | ProducerLoad)
        or (isinstance(node, Expr) and node.dtype not in ("int32", "bool"))
        for node in nodes
    )


def _least(form: Affine, gone: Set[Var]) -> Affine | None:
    """Return what a form is at least, whatever the variables ``gone`` are; None if unknown."""
    kept, least = {}, form.const
    for atom, k in form.terms.items():
        if atom.vars.isdisjoint(gone):
            kept[atom] = k
            continue
        low = k * (atom.low if k > 0 else atom.high)
        if isinf(low):
            return None
        least += int(low)
    return Affine(kept, least)


def _range(simplifier: Simplifier, forms: list[Affine], var: Var) -> Range:
    """Return the values of a variable for which no form is positive, as far as they show."""
    lows, highs, exact = [], [], bool(forms)
    for form in forms:
        rest = {atom: k for atom, k in form.terms.items() if var not in atom.vars}
        own = [(atom, k) for atom, k in form.terms.items() if var in atom.vars]
        if len(own) != 1 or own[0][0].kind is not AtomKind.VAR:
            exact = False
            continue
        other, k = Affine(rest, form.const), own[0][1]
        if k > 0:
            below = simplifier.floordiv(scale_affine(other, -1), k)
            highs.append(shift_affine(below, 1))
        else:
            lows.append(simplifier.floordiv(shift_affine(other, -k - 1), -k))
    return Range(tuple(lows), tuple(highs), exact)


def never_empty(simplifier: Simplifier, found: list[Range], extent: int) -> bool:
    """Returns whether a value below ``extent``, and not below 0, is surely in one of ranges."""
    for each in found:
        lows, highs = [constant(0), *each.lows], [constant(extent), *each.highs]
        pairs = product(lows, highs)
        if each.exact and all(simplifier.sub(high, low).bounds[0] >= 1 for low, high in pairs):
            return True
    return False
