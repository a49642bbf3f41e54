"""Identical machine code under different knobs is measured once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace

from autotune.measure.process.pending import forward
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult

# What the code itself decides. A crash or a timeout may have had other reasons.
_SHAREABLE = (MeasureErrorNo.NO_ERROR, MeasureErrorNo.WRONG_ANSWER)

Run = Callable[[MeasureInput, BuildResult], "Future[MeasureResult]"]


class Sharing:
    """Remembers which code is being or was measured, and hands its result to later trials.

    A candidate that was measured, and is asked for again, is measured again.

    Args:
        run: really measures a trial.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._first: dict[object, tuple[MeasureInput, Future[MeasureResult]]] = {}

    def submit(
        self, measure_input: MeasureInput, build_result: BuildResult
    ) -> Future[MeasureResult]:
        """Measure a trial, or wait for another one with the same code."""
        if not build_result.code_hash or build_result.kernel is None:
            return self._run(measure_input, build_result)
        key = (build_result.code_hash, build_result.kernel.args)
        with self._lock:
            known = self._first.get(key)
            if known is None or known[1].cancelled() or _again(known, measure_input):
                known = None
                future = self._run(measure_input, build_result)
                self._first[key] = (measure_input, future)
        if known is not None:
            return self._share(known, measure_input, build_result)
        future.add_done_callback(lambda ended: self._keep(key, ended))
        return future

    def _keep(self, key: object, ended: Future[MeasureResult]) -> None:
        """Keep what came of a trial, and not who waited for it, on whom a session may hang."""
        with self._lock:
            known = self._first.get(key)
            if known is None or known[1] is not ended:  # it was given up, and is measured again
                return
            del self._first[key]
            if not ended.cancelled() and ended.exception() is None:
                kept: Future[MeasureResult] = Future()
                kept.set_result(ended.result())
                self._first[key] = (known[0], kept)

    def _share(
        self,
        known: tuple[MeasureInput, Future[MeasureResult]],
        measure_input: MeasureInput,
        build_result: BuildResult,
    ) -> Future[MeasureResult]:
        mine: Future[MeasureResult] = Future()
        original, first = known

        def settle(done: Future[MeasureResult]) -> None:
            # Whoever waited for `mine` may have given it up.
            with suppress(InvalidStateError):
                if done.cancelled():  # the other one was given up, this one was not
                    forward(self._run(measure_input, build_result), mine)
                elif (error := done.exception()) is not None:
                    mine.set_exception(error)
                elif done.result().error_no in _SHAREABLE:
                    mine.set_result(_copy(done.result(), original, build_result))
                else:
                    forward(self._run(measure_input, build_result), mine)

        first.add_done_callback(settle)
        return mine


def _again(known: tuple[MeasureInput, Future[MeasureResult]], asked: MeasureInput) -> bool:
    """Whether a candidate is asked for that has its result."""
    original, first = known
    return first.done() and original.key == asked.key


def _copy(
    result: MeasureResult, original: MeasureInput, build_result: BuildResult
) -> MeasureResult:
    evidence = replace(result.evidence, same_code_as=original.key)
    return result._replace(
        all_cost=build_result.time_cost, timestamp=time.time(), evidence=evidence
    )
