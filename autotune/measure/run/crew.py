"""The devices of one runner at work on one task."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from autotune.errors import MeasureError
from autotune.measure.check.verify import NONE, Oracle, VerifyPolicy
from autotune.measure.process.died import Died
from autotune.measure.process.scratch import Scratch
from autotune.measure.run.calibration import Calibration
from autotune.measure.run.ceiling import Roofline
from autotune.measure.run.dispatch import Dispatch
from autotune.measure.run.host import HostMeter
from autotune.measure.run.jobs import Greeting, RaceJob, RunJob
from autotune.measure.run.replies import Done, Failed, Raced, Ran, why_not
from autotune.measure.run.sharing import Sharing
from autotune.measure.run.stations import Rest, Station
from autotune.measure.run.timing import TimingPolicy, costs_of, recorded, scaled
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult
from autotune.runtime import Timing
from autotune.workload import Workload

# A race times many candidates many times; each gets this much of what one trial may take.
_RACE_SHARE = 3.0


@dataclass(frozen=True)
class RunOptions:
    """How every trial is treated; the fields are arguments of `LocalRunner`."""

    timeout_s: float
    timing: TimingPolicy
    flush: bool
    graph: bool | None
    verify: VerifyPolicy
    cooldown_s: float


# Makes what owns a device; given where that is and a folder for temporary files.
OpenStation = Callable[[Greeting, str], Station]


class Crew:
    """Measures the trials of one task.

    Args:
        options: how.
        greetings: one for each device.
        open_station: makes what owns one of them.
        oracle: inputs and expected outputs.
        task: what is measured.
        host: takes note of what else the host was at.
    """

    def __init__(
        self,
        options: RunOptions,
        greetings: Sequence[Greeting],
        open_station: OpenStation,
        oracle: Oracle,
        task: Workload,
        host: HostMeter,
    ) -> None:
        self._options = options
        self._how = _how_timed(options)
        self._host = host
        self._oracle = oracle
        self._oracle_lock = threading.Lock()
        self._roofline = Roofline(task)
        self._best_s = math.inf  # by the clock of the anchor, see `Calibration`
        self._best_lock = threading.Lock()
        self._calibration = Calibration(len(greetings))
        self._several = len(greetings) > 1
        self._scratch = Scratch("run")
        folder = str(self._scratch.path)
        stations = [open_station(greeting, folder) for greeting in greetings]
        self.sharing = Sharing(self._measure)
        self._dispatch = Dispatch(stations, Rest(options.cooldown_s), self._clean)
        self._closed = False
        if options.verify != NONE:
            threading.Thread(target=self._look_ahead, args=(task,), daemon=True).start()

    def _look_ahead(self, task: Workload) -> None:
        """Compute the reference while the first trials are built."""
        with suppress(Exception), self._oracle_lock:  # the first trial will say what is wrong
            self._oracle.look_ahead(task)
        if self._closed:
            self._clean()

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes that own a device now."""
        return self._dispatch.pids

    @property
    def devices(self) -> tuple[int, ...]:
        """The devices at work: those that could not be started any more are missing."""
        return self._dispatch.devices

    def _measure(self, inp: MeasureInput, built: BuildResult) -> Future[MeasureResult]:
        return self._dispatch.put(lambda station: self._trial(station, inp, built))

    def race(
        self,
        candidates: Sequence[tuple[MeasureInput, BuildResult]],
        rounds: int,
        least_s: float,
        device: int | None,
    ) -> list[Timing]:
        """Time candidates in turn; see `LocalRunner.race`."""
        runs = tuple(self._job(inp, built, "never", None) for inp, built in candidates)
        timeout_s = self._options.timeout_s * _RACE_SHARE * max(1, len(runs))
        job = RaceJob(runs, rounds, least_s, timeout_s, seed=len(runs))
        reply = self._dispatch.put(lambda station: station.run(job), device).result()
        if not isinstance(reply, Raced):
            raise MeasureError(f"the race of {len(runs)} candidates failed: {why_not(reply)}")
        self._host.add(reply.host, reply.timings)
        return list(reply.timings)

    def _best_on(self, device: int) -> float | None:
        """Return the best so far by the clock of a device, or None when it cannot be told."""
        factor = self._calibration.known(device)
        return None if factor is None or self._best_s == math.inf else self._best_s / factor

    def _note(self, seconds: float) -> None:
        with self._best_lock:
            self._best_s = min(self._best_s, seconds)

    def _job(
        self,
        inp: MeasureInput,
        built: BuildResult,
        check: Literal["never", "best", "always"],
        best_s: float | None,
    ) -> RunJob:
        if built.kernel is None:
            raise MeasureError("a build result without a kernel cannot be run")
        with self._oracle_lock:
            data = self._oracle.data(inp, built.kernel, check != "never", built.reference)
        return RunJob(
            artifact=built.artifact,
            kernel=built.kernel,
            timeout_s=self._options.timeout_s,
            timing=self._options.timing,
            inputs=data.inputs,
            checks=data.checks,
            check=check,
            best_s=best_s,
            flush=self._options.flush,
            graph=self._options.graph,
        )

    def _trial(self, station: Station, inp: MeasureInput, built: BuildResult) -> MeasureResult:
        verify = self._options.verify
        check = "never" if built.kernel is None else verify.check(inp, built.kernel)
        job = self._job(inp, built, check, self._best_on(station.device))
        station.start()
        started = time.perf_counter()
        reply = station.run(job)
        seconds = built.time_cost + time.perf_counter() - started
        if not isinstance(reply, Ran):
            return _failed(reply, built, seconds)
        timing = reply.timing
        self._host.add(reply.host, [timing])
        factor = self._calibration.factor(
            station.device, job, timing.median, lambda anchor: _median(station.run(anchor))
        )
        fraction = self._roofline.fraction(station, job, timing)
        timing = scaled(timing, factor)
        if not timing.cut_short:
            self._note(timing.median)
        extra = _extra(timing, built, reply.verified) | self._how
        extra |= verify.told(job.kernel)
        if fraction is not None:
            extra["roofline"] = fraction
        if self._several:
            extra |= {"device": station.device, "calibration": factor}
        return MeasureResult(
            costs_of(timing), MeasureErrorNo.NO_ERROR, seconds, time.time(), "", extra
        )

    def close(self) -> None:
        """Kill the processes, drop what waits, and remove the reference data."""
        self._closed = True
        self._dispatch.close()
        self._clean()

    def _clean(self) -> None:
        """Remove all files; again by each thread, which may have outlasted `close`."""
        self._oracle.close()
        self._scratch.remove()


def _failed(reply: Done | Failed | Died, built: BuildResult, seconds: float) -> MeasureResult:
    """Return the result of a trial that did not run to its end."""
    unknown = MeasureErrorNo.UNKNOWN_ERROR
    number = reply.error_no if isinstance(reply, (Failed, Died)) else unknown
    extra = {"resources": built.resources} if built.resources else {}
    return MeasureResult((), number, seconds, time.time(), why_not(reply), extra)


def _median(reply: Done | Failed | Died) -> float | None:
    return reply.timing.median if isinstance(reply, Ran) else None


def _how_timed(options: RunOptions) -> dict[str, Any]:
    """Return what else a record keeps of how it was timed: whatever is not the default."""
    how: dict[str, Any] = {}
    if options.flush:
        how["flush"] = True
    if options.graph is not None:
        how["graph"] = options.graph
    if options.timing.min_repeat_ms:
        how["min_repeat_ms"] = options.timing.min_repeat_ms
    return how


def _extra(timing: Timing, built: BuildResult, verified: bool) -> dict[str, Any]:
    """Return what the record keeps besides the costs."""
    extra = {**recorded(timing), "verified": verified}
    if built.resources:
        extra["resources"] = built.resources
    return extra
