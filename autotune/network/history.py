"""Chooses for each function of a network the implementation that a log has the best record of."""

from __future__ import annotations

import logging
import math

from autotune.auto_scheduler import equivalent_keys, fair, record_codec
from autotune.errors import AutotuneError
from autotune.graph import Graph, digest
from autotune.graph.fuse import FusedFunction
from autotune.graph.passes import OWN, PassPipeline
from autotune.measure import MeasureInput, MeasureResult
from autotune.network.choice import RULE, BySearch, ByTemplate, Choice, choose_untuned, same_for
from autotune.network.choice_json import choice_from_json, choice_hashes, search_task
from autotune.network.compile import simplify_graph
from autotune.network.implementations import offers_of
from autotune.network.layouts import pipeline_in
from autotune.network.tuning.tuning_log import NetworkLog
from autotune.network.units import is_one
from autotune.record.origin import from_here
from autotune.record.paths import LogPath
from autotune.target import Target
from autotune.tuner.loop.resume import earlier
from autotune.workload import Workload

logger = logging.getLogger("autotune")

# Bytes a second at which what a template leaves of a function is supposed to run.
_REST_BYTES_S = {True: 2e12, False: 1e10}
_DIGITS = 16


class History:
    """Chooses by a log, the same each time: what won a race in the network, else the best trial.

    Args:
        log: a log of `tune_network`, or any log of templates or of the auto-scheduler.

    Example::

        compile_network(graph, "cuda", choose=History("r18.log").choose)
    """

    def __init__(self, log: LogPath | NetworkLog) -> None:
        self.log = log if isinstance(log, NetworkLog) else NetworkLog.read(log)
        if not self.log.path.exists():
            logger.warning(
                "History: there is no log %s; check the path: networks run untuned", self.log.path
            )
        self._raced = {
            (note["function"], note["target"]): note
            for note in self.log.notes
            if isinstance(note.get("function"), str) and isinstance(note.get("target"), str)
        }
        self._states = fair(self.log.states)

    def choose(self, function: FusedFunction, target: Target) -> Choice:
        """Return how a function is computed; as before any tuning if the log says nothing."""
        if function.parts and not is_one(function, choose_untuned(function, target)):
            return RULE  # nobody raced it: `Variants.joint` are those that are one kernel untuned
        raced = self._race_of(function, target)
        if raced is not None:
            return raced
        ranked = self.ranked(function, target, most=1)
        if function.parts:
            return self._joint(function, target, ranked)
        return ranked[0][0] if ranked else choose_untuned(function, target)

    def _joint(
        self, function: FusedFunction, target: Target, ranked: list[tuple[Choice, float]]
    ) -> Choice:
        """Return how a joint function is computed; by rule means: by its parts.

        Where there are trials of the first part only, what was best of it does both if it can.
        """
        first, second = function.parts
        raced, alone = self._race_of(first, target), self.ranked(first, target, most=1)
        if ranked:
            apart_s = alone[0][1] + _passing_s(second, target) if alone else math.inf
            return ranked[0][0] if ranked[0][1] <= apart_s else RULE
        best = raced or (alone[0][0] if alone else None)
        if best is None:
            return choose_untuned(function, target)
        return same_for(function, best, target) or RULE

    def branches(self, graph: Graph, target: Target | str) -> bool:
        """Return whether kernels of a network ran side by side faster than one after another.

        Args:
            graph: the network, its parameters bound.
            target: what it was tuned for.
        """
        simpler = simplify_graph(graph, Target(target), self.pipeline(graph, target))
        return self.branches_of(digest(simpler), Target(target))

    def pipeline(self, graph: Graph, target: Target | str) -> PassPipeline:
        """Return the passes by which a network is to be compiled: they choose its layout.

        Args:
            graph: the network, its parameters bound.
            target: what it was tuned for.
        """
        return pipeline_in(self.log.notes, graph, Target(target)) or OWN

    def branches_of(self, network: str, target: Target) -> bool:
        """Return the same of a network that is known by its digest after its passes."""
        mine = [
            note["branches"]
            for note in self.log.notes
            if (note.get("network"), note.get("target")) == (network, str(target))
            and isinstance(note.get("branches"), bool)
        ]
        return bool(mine[-1]) if mine else False

    def _race_of(self, function: FusedFunction, target: Target) -> Choice | None:
        note = self._raced.get((function.signature, str(target)))
        if note is None:
            return None
        try:
            choice = choice_from_json(note["choice"], function, target)
            if any(note.get("kernel") == one for one in choice_hashes(choice, target)):
                return choice
            why = "it was another kernel then"
        except (AutotuneError, LookupError, TypeError, ValueError) as error:
            why = str(error)
        logger.warning(
            "%s: what won the race for %s is not used: %s", self.log.path, function.name, why
        )
        return None

    def ranked(
        self, function: FusedFunction, target: Target, most: int
    ) -> list[tuple[Choice, float]]:
        """Return the best choices in the log with their seconds, the fastest first.

        The number of choices for each way to compute the function is limited.
        """
        found: list[tuple[Choice, float]] = []
        for offer in offers_of(function, target):
            rest = function.cut(offer.nodes)
            left_s = _passing_s(rest[1], target) if rest else 0.0
            mine = [pair for pair in self.log.templates if pair[0].task == offer.task]
            for inp, result in _best(from_here(mine, target), offer.task, most):
                found.append((ByTemplate(offer, inp.config), result.seconds + left_s))
        found += self._of_states(function, target, most)
        return sorted(found, key=lambda pair: (pair[1], pair[0].key))

    def _of_states(
        self, function: FusedFunction, target: Target, most: int
    ) -> list[tuple[Choice, float]]:
        if not self._states or function.parts or not function.has_reduction:
            return []
        task = search_task(function, target)
        keys = set(equivalent_keys(task.compute_dag, task.workload_key))
        mine = [
            (inp, result)
            for inp, result in self._states
            if inp.task.workload_key in keys
            and inp.target.kind == target.kind
            and result.ok
            and record_codec.is_of_graph(result, task.graph_hash)
        ]
        found: dict[str, tuple[Choice, float]] = {
            inp.key: (BySearch(task, inp.config), float(result.seconds))
            for inp, result in from_here(mine, target)
        }
        return sorted(found.values(), key=lambda pair: (pair[1], pair[0].key))[:most]


def _passing_s(function: FusedFunction, target: Target) -> float:
    """Return the seconds in which what reads and writes memory only is supposed to run."""
    return function.bytes / _REST_BYTES_S[target.backend.on_gpu]


def _best(
    pairs: list[tuple[MeasureInput, MeasureResult]], task: Workload, most: int
) -> list[tuple[MeasureInput, MeasureResult]]:
    """Return the fastest trials of a task that its template could make now."""
    known = earlier(task, pairs, anywhere=True) if pairs else None
    if known is None or known.best is None:
        return []
    best = known.best
    good = sorted((p for p in known.trials if p[1].ok), key=lambda p: (p[1].seconds, p[0].key))
    others = [pair for pair in good if pair[0].key != best[0].key]
    return [best, *others[: most - 1]]
