"""Puts reshapes behind what is computed, so that products and what follows them become one kernel.

Products of matrices see tensors as rows, importers write products of tensors so, and convolutions
of one dimension as ones of two. A bias, an activation or a norm behind the reshape would be a
kernel of its own; in front of it, it is part of the product's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.passes.fold_constant import folded
from autotune.graph.passes.regrouping import Regrouping
from autotune.graph.value import Constant, Node, Result, Value, apply

_PRODUCTS = (ops.Dense, ops.BatchMatmul, ops.Convolution, ops.Conv2dTranspose)
# Rows of these are read whole: along the last axis they stay, wherever that comes from.
_ALONG_LAST = (ops.LayerNorm, ops.RmsNorm, ops.Softmax)
_SCALED = (ops.Quantize, ops.Dequantize)
# What moves before reshapes of anything, and what does only if that is a product: there is no gain
# in sums of other data, and of both operands one would have to be reshaped.
_ALONE = (ops.Elementwise, ops.Cast, *_SCALED)
_BEHIND_PRODUCTS = (
    ops.Broadcast, ops.BiasAdd, ops.BatchNorm, ops.Prelu, ops.Where, ops.Reduction,
)  # fmt: skip


def reshapes_last(graph: Graph) -> Graph:
    """Apply operators to what is reshaped, and reshape their results.

    These are operators on each element and along the last axis; behind a product also those with
    operands that have a shape before the reshape too.
    """
    return graph.rewrite(partial(_reshaped, products={}))


def seen_as(value: Value, shape: tuple[int, ...], origin: str) -> Value:
    """Return a value in a shape; shapes in between are forgotten."""
    while isinstance(value, Result) and isinstance(value.node.op, ops.Reshape):
        value = value.node.inputs[0]
    if value.shape == shape:
        return value
    node = Node(ops.Reshape(shape), (value,), origin)
    return folded(node, [value]) if isinstance(value, Constant) else node.output


def _reshaped(node: Node, inputs: tuple[Value, ...], products: dict[Value, bool]) -> Value | None:
    """Return what a node becomes; ``products`` remembers what `_is_product` found."""
    if len(node.outputs) > 1:
        return None
    if isinstance(node.op, ops.Reshape):
        return seen_as(inputs[0], node.output.shape, node.origin)
    if isinstance(node.op, (*_ALONE, *_ALONG_LAST)):
        return _moved(node, inputs, inputs[0], products)
    if isinstance(node.op, _BEHIND_PRODUCTS):
        either = isinstance(node.op, ops.Broadcast | ops.Where)
        data = inputs if either else inputs[:1]
        moved = (_moved(node, inputs, value, products) for value in data)
        return next((each for each in moved if each is not None), None)
    return None


def _moved(
    node: Node, inputs: tuple[Value, ...], value: Value, products: dict[Value, bool]
) -> Value | None:
    """Return a node's result, computed before one of its inputs is reshaped; None if it stays."""
    before = _before(value)
    whole = value.shape == node.output.shape or isinstance(node.op, ops.Reduction)
    if before is None or not whole:
        return None
    # A number is a product's as well as anybody's.
    behind = isinstance(node.op, _BEHIND_PRODUCTS) and before.shape
    if behind and not _is_product(before, products):
        return None
    reshape = Regrouping(before.shape, value.shape)
    op = _before_that(reshape, node)
    if op is None or (isinstance(op, _ALONG_LAST) and not _is_along_last(op, before)):
        return None
    if isinstance(op, ops.Where):  # its operands have one shape
        operands = [seen_as(each, before.shape, node.origin) for each in inputs]
    elif isinstance(op, ops.Broadcast):
        found = [before if v is value else _operand(v, reshape, node.origin) for v in inputs]
        operands = [each for each in found if each is not None]
        if len(operands) < len(inputs):
            return None
    else:
        operands = [before, *inputs[1:]]
    return seen_as(apply(op, *operands, origin=node.origin), node.output.shape, node.origin)


def _before_that(reshape: Regrouping, node: Node) -> Operator | None:
    """Return a node's operator before the reshape; None where nothing computes the same."""
    if isinstance(node.op, _SCALED) and not any(each.shape for each in node.inputs[1:]):
        return replace(node.op, along=0)  # one scale is along no axis
    return reshape.moved(node.op)


def _before(value: Value) -> Value | None:
    """Return what a reshape is of."""
    if not isinstance(value, Result) or not isinstance(value.node.op, ops.Reshape):
        return None
    before = value.node.inputs[0]
    return None if isinstance(before, Constant) else before


def _is_along_last(op: ops.LayerNorm | ops.RmsNorm | ops.Softmax, before: Value) -> bool:
    axis = op.axis_of_sum if isinstance(op, ops.Softmax) else op.axis_of_norm
    return axis == before.type.ndim - 1


def _operand(value: Value, reshape: Regrouping, origin: str) -> Value | None:
    """Return another operand in the shape before the reshape, if it has one there."""
    if value.type.size == 1:
        fits = value.type.ndim <= len(reshape.before)
        return value if fits else seen_as(value, (), origin)
    shape = reshape.shape_of(value.shape)
    return None if shape is None else seen_as(value, shape, origin)


def _is_product(value: Value, known: dict[Value, bool]) -> bool:
    """Return whether a value is a product, or follows one element by element or along an axis.

    What is found is added to ``known``, of all values on the way.
    """
    way: list[Value] = []
    while value not in known:
        way.append(value)
        node = value.node if isinstance(value, Result) else None
        follows = node is not None and isinstance(
            node.op, (*_ALONE, *_ALONG_LAST, *_BEHIND_PRODUCTS)
        )
        if node is None or not follows:
            known[value] = node is not None and isinstance(node.op, _PRODUCTS)
            break
        shape = value.shape
        value = next((each for each in node.inputs if each.shape == shape), node.inputs[0])
    found = known[value]
    known.update(dict.fromkeys(way, found))
    return found
