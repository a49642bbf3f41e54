"""The choice of the layout of images: that of the network as written, or channels first."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from autotune.errors import AutotuneError
from autotune.graph import Graph, digest, ops
from autotune.graph.passes import OWN, OWN_AS_WRITTEN, PassPipeline
from autotune.network.choice import ByTemplate
from autotune.network.compile import simplify_graph
from autotune.network.tuning.tuning_log import NetworkLog, write_note
from autotune.network.tuning.variants import Variants
from autotune.network.tuning.whole_race import compare_in_turns
from autotune.runtime.device import device
from autotune.target import Target

logger = logging.getLogger("autotune")

_PIPELINES = {each.name: each for each in (OWN, OWN_AS_WRITTEN)}


def pipeline_in(
    notes: Iterable[Mapping[str, object]], graph: Graph, target: Target
) -> PassPipeline | None:
    """Return the passes that a log notes as the faster ones for a network; None without a note.

    Args:
        notes: of `NetworkLog`.
        graph: the network, its parameters bound.
        target: what it was tuned for.
    """
    wanted = (digest(graph), str(target))
    told = [n.get("passes") for n in notes if (n.get("layout_of"), n.get("target")) == wanted]
    return _PIPELINES.get(str(told[-1])) if told else None


def race_layouts(graph: Graph, target: Target, log: NetworkLog, in_time: bool = True) -> Graph:
    """Return a network after its passes, in the layout in which it runs faster untuned.

    Nothing is run if the log has the winner already, or has trials of the network; otherwise the
    winner is logged. Only layouts are raced in which templates compute every convolution, as
    others are slow. If one of the two cannot be compiled or run, the result has its channels
    first.

    Args:
        graph: the network, its parameters bound.
        target: the target.
        log: the log of earlier tuning.
        in_time: whether there is time for a race.
    """
    known = pipeline_in(log.notes, graph, target)
    if known is not None:
        return simplify_graph(graph, target, known)
    first = simplify_graph(graph, target)
    begun = log.spent_s(digest(first), target) > 0
    if begun or not in_time or not target.backend.on_gpu or not _has_another(graph):
        return first
    written = simplify_graph(graph, target, OWN_AS_WRITTEN)
    fields = [Variants(each, target) for each in (first, written)]
    if digest(first) == digest(written) or not all(map(_by_templates, fields)):
        return first
    try:
        first_s, written_s = compare_in_turns(
            *[each.of({}).instance(device(target)) for each in fields]
        )
    except AutotuneError as error:
        logger.warning("layouts were not raced: %s; images have their channels first", error)
        return first
    winner = OWN_AS_WRITTEN if written_s < first_s else OWN
    note = {"layout_of": digest(graph), "target": str(target), "passes": winner.name}
    write_note(log.path, note | {"in_whole": [written_s, first_s]})
    return written if winner is OWN_AS_WRITTEN else first


def _has_another(graph: Graph) -> bool:
    return any(isinstance(n.op, ops.Conv2d) and n.op.data_layout == "NHWC" for n in graph.nodes)


def _by_templates(variants: Variants) -> bool:
    return all(
        isinstance(variants.untuned[function.signature], ByTemplate)
        for function in variants.functions
        if any(isinstance(node.op, ops.Conv2d) for node in function.nodes)
    )
