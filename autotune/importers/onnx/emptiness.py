"""Operators with tensors that have no elements, which a graph does not have."""

from __future__ import annotations

import numpy as np

from autotune.graph import Array, Constant, Value
from autotune.importers.onnx.call import Call, Operand
from autotune.importers.onnx.lazy_import import evaluated
from autotune.importers.onnx.model import OnnxGraph
from autotune.importers.onnx.tensors import numpy_type

# Operators with whole numbers behind their first input on which the shape does not depend.
_OF_TYPES = frozenset([
    "Add", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Concat", "Div", "Equal", "Gather",
    "GatherElements", "GatherND", "Gemm", "Greater", "GreaterOrEqual", "Less", "LessOrEqual",
    "MatMul", "Max", "Mean", "Min", "Mod", "Mul", "Pow", "Sub", "Sum", "Where",
])  # fmt: skip


def without_elements(call: Call) -> list[Operand | None]:
    """Return the results of an operator that has such an input, or makes such a result.

    ONNX's own evaluator computes them, with zeros for what is known only at run time: a result
    without elements does not depend on it. Axes and shapes must be known.

    Raises:
        GraphError: a result has elements, and depends on the network's inputs.
    """
    node = call.node
    graphs = any(isinstance(each, OnnxGraph) for each in node.attributes.values())
    if node.domain or graphs or any(isinstance(each, tuple) for each in call.inputs):
        call.refuse("tensors without elements are not supported here")
    for i, each in enumerate(call.inputs[1:], 1):
        if isinstance(each, Value) and "int" in each.dtype and node.kind not in _OF_TYPES:
            call.known(i, f"input {i}")
    known = [None if each is None else call.numbers(each) for each in call.inputs]
    arrays = [
        _zeros(each) if number is None and each is not None else number
        for each, number in zip(call.inputs, known, strict=True)
    ]
    complete = all((a is None) == (b is None) for a, b in zip(known, arrays, strict=True))
    with np.errstate(all="ignore"):
        found = [np.asarray(each) for each in evaluated(node, call.opset, arrays)]
    if not complete and any(each.size for each in found):
        call.refuse(
            "with a tensor without elements, its result depends on the network's inputs, which "
            "is not supported"
        )
    return [
        each if not each.size or each.dtype.kind in "iub" else Constant.of(each) for each in found
    ]


def _zeros(value: Value) -> Array:
    return np.zeros(value.shape, numpy_type(value.dtype))
