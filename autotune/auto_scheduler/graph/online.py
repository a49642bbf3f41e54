"""Graphs in which a product of a softmax is computed in parts of rows (`autotune.te.online`)."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from autotune.auto_scheduler.graph.compute_graph import ComputeGraph
from autotune.te.online import RowParts, in_parts, row_parts
from autotune.te.relation import extent_of
from autotune.te.weighted_rows import WeightedRows, weighted_rows
from autotune.te.whole_tiles import in_whole_tiles


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
_Known = dict[tuple[int, int, int, int, int], OnlineGraph]
_KNOWN: WeakKeyDictionary[ComputeGraph, _Known] = WeakKeyDictionary()


def weighted_stage(graph: ComputeGraph, stage_id: int) -> WeightedRows | None:
    """Returns what a stage of the plain graph weights by a softmax; None if it does not."""
    if not 0 <= stage_id < len(graph.ops):
        return None
    return weighted_rows(graph.tensors, graph.ops[stage_id])


def online_graph(
    graph: ComputeGraph, stage_id: int, length: int, apart: int, tile: int = 0, depth: int = 0
) -> OnlineGraph | None:
    """Returns a graph whose stage is computed in parts of rows; None if it cannot be.

    Args:
        graph: the plain graph.
        stage_id: of the product.
        length: of the parts.
        apart: how far apart columns are that are joined together.
        tile: of how many the products have a multiple of rows and columns; 0: as they are.
        depth: of how many columns and steps of scores instead; 0: of ``tile``.
    """
    known = _KNOWN.setdefault(graph, {})
    key = (stage_id, length, apart, tile, depth)
    if key not in known:
        found = weighted_stage(graph, stage_id)
        if found is not None and length >= 1 and tile:
            found = in_whole_tiles(found, length, tile, depth)
        if found is None or length < 1 or found.length % length:
            return None
        columns = extent_of(found.op.axis[-1]) or 1
        if apart < 1 or columns % apart:
            return None
        parts = row_parts(found, length, apart)
        new = ComputeGraph(in_parts(graph.tensors, found, parts))
        # Of several threads the first one's stays, so that all states have the same operations.
        known.setdefault(key, OnlineGraph(new, parts))
    return known[key]
