"""A verifier of graphs, which reports all errors at once."""

from __future__ import annotations

from autotune.errors import GraphError
from autotune.graph.graph import Graph
from autotune.graph.value import Node

# More would scroll the first ones away.
_SHOWN = 20


def verify(graph: Graph) -> None:
    """Check that a graph is well-formed.

    Raises:
        GraphError: inputs share a name, or a result has not the type that its operator gives;
            all that is found, one line each.
    """
    found: list[str] = []
    names: set[str] = set()
    for each in graph.inputs:
        if each.name in names:
            found.append(f"two inputs are called {each.name!r}")
        names.add(each.name)
    for number, node in enumerate(graph.nodes):
        try:
            types = node.op.infer(*[value.type for value in node.inputs])
        except GraphError as error:
            found.append(f"{_place(node, number)}: {error}")
            continue
        expected = types if isinstance(types, tuple) else (types,)
        got = tuple(value.type for value in node.outputs)
        if expected != got:
            found.append(
                f"{_place(node, number)}: {node.op.name} gives {', '.join(map(str, expected))}, "
                f"but its results are {', '.join(map(str, got))}"
            )
    raise_all(found, "this graph is ill-formed")


def check_computable(graph: Graph) -> None:
    """Check that each operator can be made a kernel.

    Raises:
        GraphError: some cannot; each is listed with its place.
    """
    missing = [
        f"{_place(node, number)}: {node.op.name} on {', '.join(str(v.type) for v in node.inputs)}"
        for number, node in enumerate(graph.nodes)
        if not node.op.has_compute
    ]
    raise_all(missing, "these operators have no kernel; run passes.simplify_inference first")


def raise_all(found: list[str], what: str) -> None:
    """Raise one error of all that was found, if there is anything."""
    if not found:
        return
    more = [f"... and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    raise GraphError("\n  ".join([f"{what} ({len(found)}):", *found[:_SHOWN], *more]))


def _place(node: Node, number: int) -> str:
    return node.origin or f"node %{number}"
