"""Loops of reductions over what is needed only: from the first to the last term that can matter.

A condition under which terms are needed (`autotune.te.intrinsics.needed`) depends on all loops of
a stage, and on threads. A loop is the same for all threads of a block, and for all loops inside of
it, so that it has the terms that one of them needs::

    for part in 32: ... where part * 64 <= row     # row = 256 * block + thread
    ->  for part in 4 * block + 4: ...
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import reduce
from itertools import product

from autotune.ir.analysis_affine import ZERO, Affine, constant
from autotune.ir.analysis_ranges import ranges, relaxed
from autotune.ir.expr import Expr, Max, Min, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import For, Stmt
from autotune.lowering.passes.slots import Move


def over_needed(simplifier: Simplifier, loop: For, condition: Expr, gone: Set[Var]) -> Stmt:
    """Returns a loop over the terms that are needed for some values of the variables ``gone``.

    Of one term it is the body alone.
    """
    count = loop.iterations
    if count is None:
        return loop
    low, extent = needed_terms(simplifier, condition, loop.var, count, gone)
    var, body = loop.var, loop.body
    if extent.key == constant(1).key:
        return Move(simplifier, {var: low}, {}, ZERO).rewrite(body)
    if low.key != ZERO.key:
        var = Var(loop.var.name, loop.var.dtype, loop.var.axis)
        begin = simplifier.add(simplifier.bind(var, 0, count - 1), low)
        body = Move(simplifier, {loop.var: begin}, {}, ZERO).rewrite(loop.body)
    return For(var, simplifier.expr(extent), loop.kind, body, loop.thread, loop.annotations)


def needed_terms(
    simplifier: Simplifier, condition: Expr, var: Var, count: int, gone: Set[Var]
) -> tuple[Affine, Affine]:
    """Returns the first value below ``count`` for which terms are needed, and how many follow."""
    found = ranges(simplifier, relaxed(simplifier, condition, gone), var)
    lows = [_pick(simplifier, Max, [ZERO, *each.lows]) for each in found]
    if len(found) == 1:
        begins, ends = list(found[0].lows), list(found[0].highs)
        begins += [] if any(each.bounds[0] >= 0 for each in begins) else [ZERO]
        ends += [] if any(each.bounds[1] <= count for each in ends) else [constant(count)]
        lengths = [simplifier.sub(end, begin) for begin, end in product(begins, ends)]
        return lows[0], _pick(simplifier, Max, [_pick(simplifier, Min, lengths), ZERO])
    highs = [_pick(simplifier, Min, [constant(count), *each.highs]) for each in found]
    low = _pick(simplifier, Min, [constant(count), *lows])
    high = _pick(simplifier, Max, [ZERO, *highs])
    return low, _pick(simplifier, Max, [simplifier.sub(high, low), ZERO])


def _pick(simplifier: Simplifier, which: type[Max] | type[Min], forms: Sequence[Affine]) -> Affine:
    """Return the greatest or the least of forms."""

    def one(a: Affine, b: Affine) -> Affine:
        return simplifier.form(which(simplifier.expr(a), simplifier.expr(b)))

    return reduce(one, forms)
