"""Trials whose machine code is identical are measured once and share the result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from functools import partial

from autotune.measure.process.pending import forward
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult

# What the code itself decides. A crash or a timeout may have had other reasons.
_SHAREABLE = (MeasureErrorNo.NO_ERROR, MeasureErrorNo.WRONG_ANSWER)

Run = Callable[[MeasureInput, BuildResult], "Future[MeasureResult]"]


class _First:
    """The first trial with some machine code.

    The reference to its future is dropped when it ends, as the future may keep a session alive.

    Args:
        key: key of the candidate.
        future: future of the trial.
    """

    __slots__ = ("_future", "_result", "key")

    def __init__(self, key: str, future: Future[MeasureResult]) -> None:
        self.key = key
        self._future: Future[MeasureResult] | None = future
        self._result: MeasureResult | None = None

    def end(self) -> None:
        """Keep the result, if there is one, in place of the future."""
        ended, self._future = self._future, None
        if ended is not None:
            with suppress(BaseException):  # those who wait for the future get it
                self._result = ended.result()

    def future_for(self, asked: str) -> Future[MeasureResult] | None:
        """Return what gives its result to a candidate; None where that must run itself.

        A candidate that was measured, and is asked for again, does, and so does the next one when
        this one was given up.
        """
        if self._future is not None and not self._future.done():
            return self._future
        if self._future is not None:
            self.end()
        if self._result is None or self.key == asked:
            return None
        kept: Future[MeasureResult] = Future()
        kept.set_result(self._result)
        return kept


class Sharing:
    """Remembers which code is being or was measured, and hands its result to later trials.

    A candidate that was measured, and is asked for again, is measured again.

    Args:
        run: really measures a trial.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._lock = threading.Lock()
        self._first: dict[object, _First] = {}

    def submit(
        self, measure_input: MeasureInput, build_result: BuildResult
    ) -> Future[MeasureResult]:
        """Measure a trial, or wait for another one with the same code."""
        if not build_result.code_hash or build_result.kernel is None:
            return self._run(measure_input, build_result)
        key = (build_result.code_hash, build_result.kernel.args)
        with self._lock:
            first = self._first.get(key)
            known = None if first is None else first.future_for(measure_input.key)
            if first is None or known is None:
                future = self._run(measure_input, build_result)
                first = self._first[key] = _First(measure_input.key, future)
        if known is not None:
            return self._share(first.key, known, measure_input, build_result)
        future.add_done_callback(partial(self._end, first))
        return future

    def _end(self, first: _First, _: Future[MeasureResult]) -> None:
        with self._lock:
            first.end()

    def _share(
        self,
        original: str,
        first: Future[MeasureResult],
        measure_input: MeasureInput,
        build_result: BuildResult,
    ) -> Future[MeasureResult]:
        mine: Future[MeasureResult] = Future()

        def settle(done: Future[MeasureResult]) -> None:
            # `mine` may have been given up meanwhile.
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


def _copy(result: MeasureResult, original: str, build_result: BuildResult) -> MeasureResult:
    evidence = replace(result.evidence, same_code_as=original)
    return result._replace(
        all_cost=build_result.time_cost, timestamp=time.time(), evidence=evidence
    )
