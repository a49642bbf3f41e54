"""Reductions of networks, with functions of each element before them and of each result after.

A sum of squares is one kernel with ``before="a * a"``, the root of it has ``after="sqrt(a)"`` too.
Elements may become wider numbers before, and the results are of that type.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.graph import Node, Pattern, Value, ops
from autotune.graph.fuse import FusedFunction
from autotune.network.expressions import shallow, text_of_node
from autotune.network.implementations import Offer, implements_whole

from ..rows.reduction_shape import Reduction
from .cuda import FLOATS, alternating, takes

# Elements of all chains are computed as float32. Of these types results are whole numbers.
_COUNTS = ("bool", "int32")
_WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4}
_FINITE = "3.4028234663852886e+38"


def reduction_of_functions(function: FusedFunction) -> Offer | None:
    """Offer a reduction with what is done to its elements, and to its results."""
    graph = function.graph
    found = [i for i, node in enumerate(graph.nodes) if isinstance(node.op, ops.Reduction)]
    if len(found) != 1 or len(graph.inputs) != 1 or len(graph.outputs) != 1:
        return None
    at, data = found[0], graph.inputs[0]
    node = graph.nodes[at]
    op, (reduced,) = node.op, node.inputs
    assert isinstance(op, ops.Reduction)
    before = _text(graph.nodes[:at], data, reduced)
    after = _text(graph.nodes[at + 1 :], node.output, graph.outputs[0])
    if data.dtype not in FLOATS or not before or not after:
        return None
    outer, depth, inner = alternating(data.shape, op.over(len(data.shape)))
    kind = graph.outputs[0].dtype
    if not depth or (kind == "int32") != (node.output.dtype == "int32"):
        return None
    extents = (*outer, *depth) if len(depth) == 1 else (outer, depth)
    places = op.name.startswith("arg")
    to = "" if places or kind == data.dtype else kind
    functions = (before if before != "a" else "", after if after != "a" else "", to)
    args = (op.name, *extents, inner, data.dtype, *functions)
    return Offer("reduce.cuda", args, (data,)) if takes(Reduction.of, *args) else None


def _text(nodes: Sequence[Node], value: Value, result: Value) -> str:
    """Return the expression of ``a`` by which a value becomes another; empty if there is none."""
    texts = {value: "a"}
    for node in nodes:
        if len(node.outputs) != 1 or node.op.pattern > Pattern.BROADCAST:
            return ""
        if node.output.shape != value.shape:
            return ""
        text = _text_of_node(node, texts)
        if not text:
            return ""
        texts[node.output] = text
    return shallow(texts.get(result, ""))


def _text_of_node(node: Node, texts: dict[Value, str]) -> str:
    """Return the expression of a node, also of one whose result is wider, or is a truth value."""
    (first, *_), kind = node.inputs, node.output.dtype
    match node.op:
        case ops.Cast():
            wider = _WIDTHS.get(kind, 0) >= _WIDTHS.get(first.dtype, 4)
            counts = first.dtype in _COUNTS and kind in ("int32", *FLOATS)
            return texts.get(first, "") if wider or counts else ""
        case ops.IsInf():
            return f"where(abs({texts.get(first, '')}) > {_FINITE}, 1, 0)"
    same = all(each.dtype == kind for each in node.inputs)
    return text_of_node(node, texts) if same and kind in FLOATS else ""


implements_whole("cuda", "reduce.cuda")(reduction_of_functions)
