"""Products that are weighted by a softmax of their rows, as attention is.

Which stages the softmax has does not matter: what reduces nothing is put where it is read, and
then has to be ``exp(x - max(x)) / sum(exp(x - max(x)))`` along the sum, each with the same x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.ir import (
    Call,
    Cast,
    Div,
    Expr,
    IntImm,
    IterVar,
    Mul,
    ProducerLoad,
    Reduce,
    Rewriter,
    Sub,
    Var,
    is_float,
    substitute,
)
from autotune.ir.structure import same
from autotune.ir.visitor import reads_in
from autotune.te.dag import post_order
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp, Operation, Tensor

# The name of the power function in bodies, and the type that sums are in.
_EXP, FLOAT = "exp", "float32"


@dataclass(frozen=True)
class WeightedRows:
    """A product whose one operand is the softmax of rows, which nobody else reads.

    Attributes:
        op: the product.
        weights: the read of the softmax in it.
        value: what the powers are of before the maximum is subtracted, at ``axes``.
        axes: of the softmax; the last runs along the row.
        scores: the stage, itself a reduction, of which ``value`` is.
        dtype: to which weights are rounded.
        results: the product in the graph, of which the other may have more (`whole_tiles`).
    """

    op: ComputeOp
    weights: ProducerLoad
    value: Expr
    axes: tuple[IterVar, ...]
    scores: ComputeOp
    dtype: str
    results: ComputeOp

    @property
    def length(self) -> int:
        """Elements of a row."""
        return extent_of(self.axes[-1]) or 1


def weighted_rows(tensors: Sequence[Tensor], op: Operation) -> WeightedRows | None:
    """Returns what a product weights by a softmax; None if it is no such product.

    Args:
        tensors: inputs and outputs of its graph, of which the softmax and its scores are none.
        op: the operation.
    """
    body = _sum(op)
    if not isinstance(op, ComputeOp) or body is None or len(body.axes) != 1 or not op.axis:
        return None
    for load in _factors(body.sources[0]):
        found = _softmax(op, body, load)
        if found is not None and _is_alone(found, tensors):
            return found
    return None


def _sum(op: Operation, name: str = "sum") -> Reduce | None:
    """Return the one plain reduction that an operation is, in float32."""
    body = op.body[0] if isinstance(op, ComputeOp) and len(op.body) == 1 else None
    if not isinstance(body, Reduce) or body.combiner.name != name or len(body.sources) != 1:
        return None
    plain = isinstance(body.condition, IntImm) and body.condition.value and not body.init
    begins = all(axis.dom is not None and same(axis.dom.min, IntImm(0)) for axis in body.axes)
    return body if plain and begins and body.dtype == FLOAT else None


def _factors(value: Expr) -> list[ProducerLoad]:
    """Return the reads that a product is linear in, widened or not."""
    match value:
        case Mul(a, b):
            return [*_factors(a), *_factors(b)]
        case Cast(ProducerLoad() as load) if value.dtype == FLOAT:
            return [load]
        case ProducerLoad():
            return [value]
        case _:
            return []


def _softmax(op: ComputeOp, body: Reduce, load: ProducerLoad) -> WeightedRows | None:
    """Return what is read if it is a softmax, whose rows the product adds up."""
    weights = load.tensor.op
    if not isinstance(weights, ComputeOp) or not _adds_up_rows(op, body, load, weights):
        return None
    value, dtype = _inlined(weights.body[0]), FLOAT
    if isinstance(value, Cast) and value.value.dtype == FLOAT and is_float(value.dtype):
        value, dtype = value.value, value.dtype
    exponent = _exponent(value, weights.axis)
    scores = None if exponent is None else _scores(exponent, weights.axis)
    if exponent is None or scores is None:
        return None
    return WeightedRows(op, load, exponent, weights.axis, scores, dtype, op)


def _adds_up_rows(op: ComputeOp, body: Reduce, load: ProducerLoad, weights: ComputeOp) -> bool:
    """Return whether a product adds up whole rows of weights, which it reads once."""
    if weights.reduce_axis or len(weights.body) != 1 or not weights.axis:
        return False
    (step,), own = body.axes, {axis.var for axis in op.axis}
    *rows, last = load.indices
    if last is not step.var or len(set(rows)) != len(rows) or not own.issuperset(rows):
        return False
    if extent_of(step) is None or extent_of(step) != extent_of(weights.axis[-1]):
        return False
    return sum(each.tensor is load.tensor for each in reads_in(*body.sources)) == 1


def _exponent(value: Expr, axes: tuple[IterVar, ...]) -> Expr | None:
    """Return the x of ``exp(x - max(x)) / sum(exp(x - max(x)))``; None of another value."""
    match value:
        case Div(Call(name, (Sub(x, ProducerLoad() as most),)) as power, ProducerLoad() as total):
            pass
        case _:
            return None
    rows = [axis.var for axis in axes[:-1]]
    if name != _EXP or any(not _is_at(each, rows) for each in (most, total)):
        return None
    is_softmax = _reduces(most, "max", x, axes) and _reduces(total, "sum", power, axes)
    return x if is_softmax else None


def _scores(exponent: Expr, axes: tuple[IterVar, ...]) -> ComputeOp | None:
    """Return the sum of which each exponent is computed from its own element; None if none is."""
    reads = [each for each in reads_in(exponent) if each.tensor.op.reduce_axis]
    ops = {each.tensor.op for each in reads}
    op = ops.pop() if len(ops) == 1 else None
    if not isinstance(op, ComputeOp) or _sum(op) is None:
        return None
    at = [axis.var for axis in axes]
    return op if all(_is_at(each, at) for each in reads) else None


def _is_at(load: ProducerLoad, at: Sequence[Var]) -> bool:
    """Return whether a read is of the first result, at variables themselves."""
    return load.tensor.value_index == 0 and tuple(load.indices) == tuple(at)


def _reduces(load: ProducerLoad, name: str, of: Expr, at: Sequence[IterVar]) -> bool:
    """Return whether a read is of a reduction of a value along whole rows."""
    op = load.tensor.op
    body = _sum(op, name)
    if body is None or not isinstance(op, ComputeOp) or len(body.axes) != 1:
        return False
    if len(op.axis) != len(at) - 1 or extent_of(body.axes[0]) != extent_of(at[-1]):
        return False
    pairs = zip((*op.axis, *body.axes), at, strict=True)
    renamed: dict[Var, Expr] = {axis.var: new.var for axis, new in pairs}
    return same(substitute(_inlined(body.sources[0]), renamed), of)


class _Inline(Rewriter):
    """Puts values in the place of reads of stages that reduce nothing."""

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Return the value at the indices."""
        indices, op = self.rewrite_all(node.indices), node.tensor.op
        if not isinstance(op, ComputeOp) or op.reduce_axis or len(op.body) != 1:
            return ProducerLoad(node.tensor, indices)
        pairs = zip(op.axis, indices, strict=True)
        places: dict[Var, Expr] = {axis.var: index for axis, index in pairs}
        return self.rewrite(substitute(op.body[0], places))


def _inlined(value: Expr) -> Expr:
    return _Inline().rewrite(value)


def _is_alone(found: WeightedRows, tensors: Sequence[Tensor]) -> bool:
    """Return whether what depends on the scores, up to the product, is of no use to others.

    What depends on the product has to be computes, which can be made to read something else.
    """
    ops = post_order(tensor.op for tensor in tensors)
    if found.op not in ops:
        return False
    after: set[Operation] = {found.op}
    for op in ops:
        if not after.isdisjoint(tensor.op for tensor in op.input_tensors):
            after.add(op)
    if not all(isinstance(op, ComputeOp) for op in after):
        return False
    between: set[Operation] = {found.scores}
    for op in ops[: ops.index(found.op)]:
        if any(tensor.op in between for tensor in op.input_tensors):
            between.add(op)
    behind = post_order([found.weights.tensor.op])
    given = {tensor.op for tensor in tensors}
    if not given.isdisjoint(between):
        return False
    readers = [op for op in ops if any(tensor.op in between for tensor in op.input_tensors)]
    return between.issubset(behind) and set(readers) <= between | {found.op}
