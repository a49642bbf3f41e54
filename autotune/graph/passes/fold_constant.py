"""Constant folding: what depends on no input is computed once, before the first run."""

from __future__ import annotations

from autotune.graph.graph import Graph
from autotune.graph.types import Array
from autotune.graph.value import Constant, Node, Value


def fold_constant(graph: Graph) -> Graph:
    """Replace nodes whose inputs are all constants by constants.

    Nothing is computed yet: the numbers are made when they are first asked for, in float64 by the
    operators' references, and rounded once.
    """
    return graph.rewrite(fold)


def fold(node: Node, inputs: tuple[Value, ...]) -> list[Value] | None:
    """Return constants for the results of a node on constants; None where some input is none."""
    constants = [value for value in inputs if isinstance(value, Constant)]
    if len(constants) < len(inputs):
        return None
    return [folded(node, constants, index) for index in range(len(node.outputs))]


def folded(node: Node, inputs: list[Constant], index: int = 0) -> Constant:
    """Return output ``index`` of a node as a constant; it is computed when it is read."""

    def make() -> Array:
        wide = [_wide(value) for value in inputs]
        results = node.op.reference(*wide)
        result: Array = results[index] if isinstance(results, tuple) else results
        return result

    name = next((value.name for value in inputs if value.name), "")
    return Constant(node.outputs[index].type, make, name, node.on(tuple(inputs)))


def _wide(value: Constant) -> Array:
    array = value.array
    return array if array.dtype.kind in "iub" else array.astype("float64")
