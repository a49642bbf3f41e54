"""Constant folding: what depends on no input is computed once, before the first run."""

from __future__ import annotations

from collections.abc import Hashable
from weakref import WeakKeyDictionary, WeakValueDictionary

from autotune.graph.graph import Graph
from autotune.graph.types import Array
from autotune.graph.value import Constant, Node, Value

# What was folded of a constant and is still in use: networks for several shapes of a model share
# their weights, and what is made of them.
_folded: WeakKeyDictionary[Constant, WeakValueDictionary[Hashable, Constant]] = WeakKeyDictionary()


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
    """Return output ``index`` of a node as a constant; it is computed when it is read.

    It is the same object for the same operator on the same constants.
    """
    first = next((each for each in inputs if not _is_number(each)), None)
    if first is None:
        return _made(node, inputs, index)
    key = node.op, index, tuple(map(_identity, inputs))
    try:
        return _folded.setdefault(first, WeakValueDictionary())[key]
    except KeyError:
        made = _folded[first][key] = _made(node, inputs, index)
        return made


def _is_number(constant: Constant) -> bool:
    """Return whether a constant is a number that a pass wrote, anew for each graph."""
    return constant.is_scalar and constant.node is None


def _identity(constant: Constant) -> Hashable:
    """Return what tells a constant from others that may be folded with the same one.

    Others are held by what is folded of them, so no other object gets their number meanwhile.
    """
    return (constant.dtype, constant.array.tobytes()) if _is_number(constant) else id(constant)


def _made(node: Node, inputs: list[Constant], index: int) -> Constant:
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
