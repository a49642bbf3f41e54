"""Pairs of functions that one kernel may compute: a layer, and elementwise operators after it.

After fusion a function has one result. A value that is read twice, as before a residual block,
ends a function, and the next one does little more than read that value again.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.graph.fuse.function import FusedFunction, merged
from autotune.graph.graph import Graph
from autotune.graph.operator import Pattern
from autotune.graph.value import Constant, Value


def joint_functions(graph: Graph, functions: Sequence[FusedFunction]) -> list[FusedFunction]:
    """Return functions of two results, each of two functions of a graph: `FusedFunction.parts`.

    The first part reduces something, the second computes element by element on the result of the
    first, which others read too. All else that it reads is there before the first runs, so it may
    run at its place. No function is a part of two.

    Args:
        graph: what was cut.
        functions: of the graph, in an order in which they can run.
    """
    made: dict[Value, int] = {v: i for i, f in enumerate(functions) for v in f.outputs}
    readers: dict[Value, list[FusedFunction]] = {}
    for function in functions:
        for value in function.inputs:
            readers.setdefault(value, []).append(function)
    found = []
    for place, first in enumerate(functions):
        if len(first.outputs) != 1 or all(n.op.pattern <= Pattern.INJECTIVE for n in first.nodes):
            continue
        (value,) = first.outputs
        second = next((f for f in readers.get(value, ()) if _follows(f, value, made, place)), None)
        if second is not None and (len(readers[value]) > 1 or value in graph.outputs):
            found.append(merged(first, second))
    return found


def _follows(function: FusedFunction, value: Value, made: dict[Value, int], place: int) -> bool:
    """Return whether a function computes element by element on a value, where that is made."""
    others = [each for each in function.inputs if each is not value]
    return (
        len(function.outputs) == 1
        and function.outputs[0].shape == value.shape
        and all(node.op.pattern <= Pattern.BROADCAST for node in function.nodes)
        and all(isinstance(v, Constant) or made.get(v, -1) < place for v in others)
    )
