"""Products that a softmax weights as whole tiles, with zeros beyond the ends of operands.

Tiles may divide no rows, no columns, or no steps of the sums. Then both products are of longer
operands, which are zero beyond the ends that they had. A score beyond the end of a row is minus
infinity, so that its power is zero. Nothing reads results beyond the ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf

from autotune.ir import (
    LT,
    Expr,
    IfThenElse,
    IterVar,
    Min,
    ProducerLoad,
    Range,
    Reduce,
    Rewriter,
    Var,
    const,
    substitute,
)
from autotune.ir.structure import variables
from autotune.te.declare import compute
from autotune.te.intrinsics import all as all_of
from autotune.te.read_rewriters import ReadInstead
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation, Tensor
from autotune.te.weighted_rows import FLOAT, WeightedRows
from autotune.utils.math import ceil_div

# The attribute of tensors with zeros beyond the ends of others.
_LONGER = "zeros_beyond"
# Extents of axes, as they were and as they are of whole tiles.
_Ends = Mapping[Var, tuple[int, int]]
# Tensors with zeros, by what they are longer than, and extents of dimensions as in `_Ends`.
_Made = dict[tuple[Tensor, tuple[tuple[int, int], ...]], Tensor]


def in_whole_tiles(
    found: WeightedRows, length: int, tile: int, depth: int = 0
) -> WeightedRows | None:
    """Returns products that have the same results, of rows of whole parts and of whole tiles.

    Args:
        found: the products.
        length: of the parts of a row of the softmax.
        tile: what rows and columns of results, and steps of scores, are a multiple of.
        depth: what columns and steps are a multiple of instead; 0: of ``tile``.

    Returns:
        The products; None if an operand is read at a sum of indices, one of which would run on,
        or if rows and columns are not the last axes.
    """
    *outer, row, column = found.op.axis
    steps = _reduced(found.scores).axes
    rows, along = found.axes[-2:] if len(found.axes) > 1 else (None, None)
    if rows is None or along is None or len(steps) != 1:
        return None
    if tuple(found.weights.indices[:-1]) != tuple(axis.var for axis in (*outer, row)):
        return None
    own_row, own_along = found.scores.axis[-2:]
    (summed,) = _reduced(found.op).axes
    units = {row: tile, rows: tile, own_row: tile, column: depth or tile, steps[0]: depth or tile}
    units |= {along: length, own_along: length, summed: length}
    ends = _ends(units)
    made: _Made = {}
    scores = _longer(found.scores, ends, made, None)
    op = _longer(found.op, ends, made, found.weights)
    if scores is None or op is None:
        return None
    at = [axis.var for axis in found.axes]
    value = found.value
    if rows.var in ends:
        last = Min(rows.var, const(ends[rows.var][0] - 1, "int32"))
        value = _ReadAt({rows.var: last}).rewrite(value)
    value = ReadInstead(found.scores, scores.outputs[0], at).rewrite(value)
    if along.var in ends:
        inside = LT(along.var, const(ends[along.var][0], "int32"))
        value = IfThenElse(inside, value, const(-inf, FLOAT))
    axes = tuple([_to_end(axis, ends) for axis in found.axes])
    return replace(found, op=op, value=value, axes=axes, scores=scores)


def is_longer(op: Operation) -> bool:
    """Returns whether an operation puts zeros beyond the ends of another one's results."""
    return bool(isinstance(op, ComputeOp) and op.attrs.get(_LONGER))


def _ends(units: Mapping[IterVar, int]) -> _Ends:
    """Return the axes that units do not divide, with their extents."""
    found = {}
    for axis, unit in units.items():
        extent = extent_of(axis) or 1
        if extent % unit:
            found[axis.var] = (extent, ceil_div(extent, unit) * unit)
    return found


def _reduced(op: ComputeOp) -> Reduce:
    body = op.body[0]
    assert isinstance(body, Reduce)
    return body


def _to_end(axis: IterVar, ends: _Ends) -> IterVar:
    """Return an axis with its new extent."""
    if axis.var not in ends:
        return axis
    return IterVar(axis.var, Range(0, ends[axis.var][1]), axis.kind)


def _longer(
    op: ComputeOp,
    ends: _Ends,
    made: _Made,
    weights: ProducerLoad | None,
) -> ComputeOp | None:
    """Return a sum with the new extents, all of whose operands but weights are longer."""
    longer = _Longer(ends, made, weights)
    body = _reduced(op)
    source = longer.rewrite(body.sources[0])
    if longer.refused:
        return None
    axes = tuple([_to_end(axis, ends) for axis in body.axes])
    total = Reduce(body.combiner, (source,), axes, body.condition)
    return ComputeOp(
        op.name, op.tag, op.attrs, tuple([_to_end(axis, ends) for axis in op.axis]), (total,)
    )


class _Longer(Rewriter):
    """Reads tensors that are zero beyond some ends; ``refused`` if one cannot be made longer."""

    def __init__(
        self,
        ends: _Ends,
        made: _Made,
        weights: ProducerLoad | None,
    ) -> None:
        self.ends, self.made, self.weights = ends, made, weights
        self.refused = False

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Return the read of a longer tensor."""
        if self.weights is not None and node.tensor is self.weights.tensor:
            return node
        inside = {
            place: self.ends[index]
            for place, index in enumerate(node.indices)
            if isinstance(index, Var) and index in self.ends
        }
        others = [each for place, each in enumerate(node.indices) if place not in inside]
        if not self.ends.keys().isdisjoint(variables(*others)):
            self.refused = True
        if not inside:
            return node
        key = (node.tensor, tuple([inside.get(i, (0, 0)) for i in range(len(node.indices))]))
        if key not in self.made:
            self.made[key] = _zero_beyond(node.tensor, inside)
        return ProducerLoad(self.made[key], node.indices)


def _zero_beyond(tensor: Tensor, inside: Mapping[int, tuple[int, int]]) -> Tensor:
    """Return a tensor with other extents of some dimensions, which is zero beyond their ends."""
    shape = [inside[i][1] if i in inside else n for i, n in enumerate(tensor.shape)]

    def value(*at: Expr) -> Expr:
        within = all_of(*[at[place] < end for place, (end, _) in inside.items()])
        return IfThenElse(within, tensor(*at), const(0, tensor.dtype))

    made: Tensor = compute(shape, value, f"{tensor.name}.whole", attrs={_LONGER: True})
    return made


class _ReadAt(Rewriter):
    """Reads tensors at other places."""

    def __init__(self, places: dict[Var, Expr]) -> None:
        self.places = places

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Return the read with other indices."""
        return ProducerLoad(
            node.tensor, tuple([substitute(each, self.places) for each in node.indices])
        )
