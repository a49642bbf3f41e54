"""Elementwise operators of networks for the templates of expressions.

By rule each element has a thread of a GPU, which is as fast where there are few; beyond, the
template is worth trying: its threads read vectors of 16 bytes, several at once. That of a CPU is
of float32, has the widest vectors, and whole tasks for threads.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import partial

from autotune.graph import OPERATORS, TensorType, Value, ops
from autotune.network.expressions import TEXTS, WRITTEN, text_of
from autotune.network.implementations import Offer, implements
from autotune.network.layer import Epilogue, Layer

from ..elementwise.elementwise_shape import Elementwise
from .cuda import FLOAT32, FLOATS, takes

# Elements from which on it is worth trying. Of sums of two arrays of float32 on an H200 it took
# 1.05 of the time of the rule with 2**16 elements, 0.91 with 2**17, 0.73 with 2**18.
MANY = 2**17


def expression(
    kind: str, text: str, shapes: Sequence[tuple[int, ...]], result: TensorType,
    operands: Sequence[Value],
) -> Offer | None:  # fmt: skip
    """Return how a template computes an expression of operands a, b, and so on, if it does."""
    args = (text, tuple(zip(string.ascii_lowercase, shapes, strict=False)), result.dtype)
    if not takes(Elementwise, *args) or Elementwise(*args).shape != result.shape:
        return None
    if kind == "cuda":
        return Offer("elementwise.cuda", args, tuple(operands))
    return Offer("elementwise.cpu", args[:-1], tuple(operands), in_place=True)


def elementwise(kind: str, layer: Layer) -> Offer | None:
    """Offer the expression, where nothing follows it and there is enough to read."""
    op, result = layer.op, layer.result
    if layer.epilogue != Epilogue() or result.size < MANY:
        return None
    text = text_of(op)
    if text is None:
        return None
    shapes = [value.shape for value in layer.inputs]
    if isinstance(op, ops.BiasAdd | ops.Prelu):
        at = op.axis_of_bias if isinstance(op, ops.BiasAdd) else op.axis_of_slope
        shapes[1] = (*shapes[1], *[1] * (result.ndim - 1 - at % result.ndim))
    return expression(kind, text, shapes, result, layer.inputs)


for _name in (*TEXTS, *WRITTEN):
    assert _name in OPERATORS, _name
    implements(_name, "cuda", "elementwise.cuda", dtypes=FLOATS)(partial(elementwise, "cuda"))
    implements(_name, "cpu", "elementwise.cpu", dtypes=FLOAT32)(partial(elementwise, "cpu"))
