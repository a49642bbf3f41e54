"""Which operators of a model are not supported: all of them in one error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.errors import GraphError
from autotune.importers.onnx.evaluate import EVALUATED
from autotune.importers.onnx.lazy_import import is_defined
from autotune.importers.onnx.model import OnnxModel, OnnxNode
from autotune.importers.onnx.operators.table import CONVERTERS, DOMAINS, REASONS

# How many nodes of one operator are named.
_NAMED = 3


def refuse_missing(model: OnnxModel, nodes: Sequence[OnnxNode], opsets: Mapping[str, int]) -> None:
    """Refuse nodes whose operators cannot be converted.

    Raises:
        GraphError: with each operator, how often it is there, and names of nodes.
    """
    found: dict[str, list[OnnxNode]] = {}
    for node in nodes:
        if not _is_supported(model, node, opsets):
            title = f"{node.domain}.{node.kind}" if node.domain else node.kind
            found.setdefault(title, []).append(node)
    if not found:
        return
    lines = [_line(title, each) for title, each in sorted(found.items())]
    total = "an operator that is" if len(found) == 1 else f"{len(found)} operators that are"
    raise GraphError(f"{model.name}: the model has {total} not supported:\n" + "\n".join(lines))


def _is_supported(model: OnnxModel, node: OnnxNode, opsets: Mapping[str, int]) -> bool:
    if (node.domain, node.kind) in model.functions or (node.domain, node.kind) in CONVERTERS:
        return True
    if not node.domain and node.kind in REASONS:
        return False
    if not node.domain and node.kind in EVALUATED:
        return True
    return node.domain in opsets and is_defined(node.kind, node.domain, opsets[node.domain])


def _line(title: str, nodes: Sequence[OnnxNode]) -> str:
    names = [node.name or node.outputs[0] for node in nodes[:_NAMED]]
    more = ", ..." if len(nodes) > _NAMED else ""
    times = f"{len(nodes)} time" + ("s" if len(nodes) > 1 else "")
    why = REASONS.get(title) or DOMAINS.get(nodes[0].domain)
    reason = f": {why}" if why else ""
    return f"  {title}, {times} ({', '.join(names)}{more}){reason}"
