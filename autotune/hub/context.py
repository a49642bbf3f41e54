"""Packs as the dispatch context of lowest priority: for what a program does not tune itself."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path

from autotune.errors import AutotuneError
from autotune.hub.packs import log_of, packs
from autotune.record import ApplyHistoryBest
from autotune.target import Target
from autotune.task.dispatcher import Config, DispatchContext, Query, provide_last
from autotune.task.workload import Workload

logger = logging.getLogger("autotvm")


class PackContext(DispatchContext):
    """Give workloads the configurations of packs that were measured on their architecture.

    Unlike a log that a program names, a pack says nothing of other architectures: there templates
    run with their defaults. Packs are read when they are first asked.

    Args:
        source: see `autotune.hub.packs`.

    Example::

        with hub.PackContext("https://example.org/kernels/#sha256=..."), Target("cuda"):
            gemm = autotune.build(gemm_nn_cuda(1024, 1024, 1024))
    """

    def __init__(self, source: str | Path) -> None:
        self._source = source
        self._reading = threading.Lock()
        self._by_arch: dict[tuple[str, str], ApplyHistoryBest] | None = None

    def _query_inside(self, target: Target | None, workload: Workload | None) -> Config | None:
        history = self._history(target, workload)
        return None if history is None else history._query_inside(target, workload)

    def _answer(self, query: Query) -> Config | None:
        """Return the configuration of a pack; a workload that it has not is nothing to tell of."""
        history = self._history(query.target, query.workload)
        return None if history is None else history._answer(replace(query, misses=[]))

    def _history(
        self, target: Target | None, workload: Workload | None
    ) -> ApplyHistoryBest | None:
        if target is None or workload is None:
            return None
        given = target if isinstance(target, Target) else Target(target)
        if given.emulate:
            return None
        with self._reading:
            if self._by_arch is None:
                self._by_arch = self._read()
        # The architecture is asked for where there is a pack only: it may look for a device.
        if all(kind != given.kind for kind, _ in self._by_arch):
            return None
        return self._by_arch.get((str(given.kind), given.arch))

    def _read(self) -> dict[tuple[str, str], ApplyHistoryBest]:
        """Read the packs; one that cannot be read costs a warning."""
        found: dict[tuple[str, str], ApplyHistoryBest] = {}
        try:
            listed = packs(self._source)
        except AutotuneError as error:
            logger.warning("%s; templates run without packs", error)
            return found
        for pack in listed:
            try:
                path = log_of(pack)
            except AutotuneError as error:
                logger.warning("%s; the pack is not used", error)
                continue
            found.setdefault((pack.target, pack.arch), ApplyHistoryBest()).load(path)
        return found


def provide(source: str | Path) -> None:
    """Let packs answer for the whole process where no context does, before defaults are used."""
    provide_last(PackContext(source))
