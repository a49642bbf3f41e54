"""Graphs in which a product of a softmax is computed in parts of rows (`autotune.te.online`)."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from autotune.auto_scheduler.graph.compute_graph import ComputeGraph
from autotune.te.online import RowParts, in_parts, row_parts
from autotune.te.weighted_rows import WeightedRows, weighted_rows


@dataclass(frozen=True)
class OnlineGraph:
    """A graph in parts of rows.

    Attributes:
        graph: the graph, with arguments in the same order.
        parts: the operations that compute in parts.
    """

    graph: ComputeGraph
    parts: RowParts


# States of one graph share the operations of another.
_KNOWN: WeakKeyDictionary[ComputeGraph, dict[tuple[int, int], OnlineGraph]] = WeakKeyDictionary()


def weighted_stage(graph: ComputeGraph, stage_id: int) -> WeightedRows | None:
    """Returns what a stage of the plain graph weights by a softmax; None if it does not."""
    if not 0 <= stage_id < len(graph.ops):
        return None
    return weighted_rows(graph.tensors, graph.ops[stage_id])


def online_graph(graph: ComputeGraph, stage_id: int, length: int) -> OnlineGraph | None:
    """Returns a graph whose stage is computed in parts of rows; None if it cannot be."""
    known = _KNOWN.setdefault(graph, {})
    if (stage_id, length) not in known:
        found = weighted_stage(graph, stage_id)
        if found is None or length < 1 or found.length % length:
            return None
        parts = row_parts(found, length)
        new = ComputeGraph(in_parts(graph.tensors, found, parts))
        # Of several threads the first one's stays, so that all states have the same operations.
        known.setdefault((stage_id, length), OnlineGraph(new, parts))
    return known[stage_id, length]
