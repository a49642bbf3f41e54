"""The devices of one runner at work on one task: a queue, and a thread for each device."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from autotune.errors import AutotuneError, MeasureError
from autotune.kernel import Kernel
from autotune.measure.calibration import Calibration
from autotune.measure.ceiling import Roofline
from autotune.measure.gate import HostGate
from autotune.measure.jobs import Check, Greeting, RaceJob, RunJob
from autotune.measure.scratch import Scratch
from autotune.measure.sharing import Sharing
from autotune.measure.stations import Rest, Station
from autotune.measure.timing import TimingPolicy, costs_of
from autotune.measure.types import BuildResult, MeasureErrorNo, MeasureInput, MeasureResult
from autotune.measure.verify import Data, Oracle, VerifyPolicy
from autotune.runtime import Timing
from autotune.runtime.timing import Clocks
from autotune.task import Task

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


Work = Callable[[Station], Any]


@dataclass(frozen=True)
class _Entry:
    work: Work
    future: Future[Any]
    device: int | None


class Crew:
    """Measures the trials of one task.

    Args:
        options: how.
        greetings: one for each device.
        gate: what keeps the host quiet; None when it need not be.
        oracle: inputs and expected outputs.
        task: what is measured.
    """

    def __init__(
        self,
        options: RunOptions,
        greetings: Sequence[Greeting],
        gate: HostGate | None,
        oracle: Oracle,
        task: Task,
    ) -> None:
        self._options = options
        self._oracle = oracle
        self._oracle_lock = threading.Lock()
        self._checks: dict[Data, tuple[Check, ...]] = {}
        self._flop = task.flop
        self._roofline = Roofline(task)
        self._best_s: float | None = None
        self._calibration = Calibration(len(greetings))
        self._several = len(greetings) > 1
        self._rest = Rest(options.cooldown_s)
        self._entries: deque[_Entry] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._scratch = Scratch("run")
        folder = str(self._scratch.path)
        self._stations = [Station(greeting, gate, folder) for greeting in greetings]
        self.sharing = Sharing(self._measure)
        self._threads = [
            threading.Thread(target=self._serve, args=(station,), daemon=True)
            for station in self._stations
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pids(self) -> list[int]:
        """Process ids of the processes that own a device now."""
        return [pid for s in self._stations if (pid := s.worker.pid) is not None]

    def _measure(self, inp: MeasureInput, built: BuildResult) -> Future[MeasureResult]:
        return self._queue(lambda station: self._trial(station, inp, built), None)

    def race(
        self,
        candidates: Sequence[tuple[MeasureInput, BuildResult]],
        rounds: int,
        least_s: float,
        device: int | None,
    ) -> list[Timing]:
        """Time candidates in turn; see `LocalRunner.race`."""
        runs = tuple(self._job(inp, built, "never") for inp, built in candidates)
        timeout_s = self._options.timeout_s * _RACE_SHARE * max(1, len(runs))
        job = RaceJob(runs, rounds, least_s, timeout_s, seed=len(runs))
        reply = self._queue(lambda station: station.run(job), device).result()
        if reply["error_no"]:
            raise MeasureError(f"the race of {len(runs)} candidates failed: {reply['message']}")
        return [timing_of(data) for data in reply["timings"]]

    def _queue(self, work: Work, device: int | None) -> Future[Any]:
        future: Future[Any] = Future()
        with self._changed:
            if self._closing:
                future.cancel()
                return future
            self._entries.append(_Entry(work, future, device))
            self._changed.notify_all()
        return future

    def _serve(self, station: Station) -> None:
        # Started while the first trials compile; what goes wrong, the first trial will meet again.
        with suppress(AutotuneError):
            station.worker.start()
        while (entry := self._next(station)) is not None:
            if not entry.future.set_running_or_notify_cancel():
                continue
            started = time.perf_counter()
            try:
                result = entry.work(station)
            except BaseException as error:  # handed to whoever waits for the result
                entry.future.set_exception(error)
                continue
            entry.future.set_result(result)
            self._rest.after(time.perf_counter() - started)
        station.worker.close()

    def _next(self, station: Station) -> _Entry | None:
        """Wait for the oldest entry that this device may do; None when all is over."""
        with self._changed:
            while not self._closing:
                for entry in self._entries:
                    if entry.device in (None, station.device):
                        self._entries.remove(entry)
                        return entry
                self._changed.wait()
        return None

    def _job(
        self, inp: MeasureInput, built: BuildResult, check: Literal["never", "best", "always"]
    ) -> RunJob:
        if built.kernel is None:
            raise MeasureError("a build result without a kernel cannot be run")
        with self._oracle_lock:
            data = self._oracle.data(inp, built.kernel)
            checks = self._checks.get(data)
            if checks is None:
                checks = self._checks[data] = self._checks_of(built.kernel, data)
        return RunJob(
            artifact=built.artifact,
            kernel=built.kernel,
            timeout_s=self._options.timeout_s,
            timing=self._options.timing,
            inputs=data.inputs,
            checks=checks,
            check=check,
            best_s=self._best_s,
            flush=self._options.flush,
            graph=self._options.graph,
        )

    def _checks_of(self, kernel: Kernel, data: Data) -> tuple[Check, ...]:
        verify = self._options.verify
        pairs = zip(kernel.outputs, data.expected, strict=False)
        return tuple(
            Check(a.name, path, verify.tolerance(kernel, a, self._flop)) for a, path in pairs
        )

    def _trial(self, station: Station, inp: MeasureInput, built: BuildResult) -> MeasureResult:
        verify = self._options.verify
        otherwise: Literal["never", "best"] = "best" if verify.best else "never"
        job = self._job(inp, built, "always" if verify.sampled(inp) else otherwise)
        station.worker.start()
        started = time.perf_counter()
        reply = station.run(job)
        seconds = built.time_cost + time.perf_counter() - started
        if reply["error_no"]:
            failed = {"resources": built.resources} if built.resources else {}
            return MeasureResult(
                (), reply["error_no"], seconds, time.time(), reply["message"], failed
            )
        timing = timing_of(reply["timing"])
        factor = self._calibration.factor(
            station.device, job, timing.median, lambda anchor: _median(station.run(anchor))
        )
        if not timing.cut_short and (self._best_s is None or timing.median < self._best_s):
            self._best_s = timing.median * factor
        extra = _extra(timing, built, bool(reply["verified"]))
        fraction = self._roofline.fraction(station, job.kernel, timing.median)
        if fraction is not None:
            extra["roofline"] = fraction
        if self._several:
            extra |= {"device": station.device, "calibration": factor}
        costs = tuple(cost * factor for cost in costs_of(timing))
        return MeasureResult(costs, MeasureErrorNo.NO_ERROR, seconds, time.time(), "", extra)

    def close(self) -> None:
        """Kill the processes, drop what waits, and remove the reference data."""
        with self._changed:
            self._closing = True
            waiting, self._entries = list(self._entries), deque()
            self._changed.notify_all()
        for entry in waiting:
            entry.future.cancel()
        self._rest.end()
        for station in self._stations:
            station.worker.end()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._oracle.close()
        self._scratch.remove()


def timing_of(data: dict[str, Any]) -> Timing:
    """Read a timing that crossed a process border as JSON."""
    clocks = data["clocks"]
    if clocks is not None:
        clocks = Clocks(**{**clocks, "slowed_by": tuple(clocks["slowed_by"])})
    samples, interval = tuple(data["samples_s"]), tuple(data["ci95"])
    return Timing(**{**data, "samples_s": samples, "ci95": interval, "clocks": clocks})


def _median(reply: dict[str, Any]) -> float | None:
    return None if reply["error_no"] else timing_of(reply["timing"]).median


def _extra(timing: Timing, built: BuildResult, verified: bool) -> dict[str, Any]:
    """Return what the record keeps besides the costs."""
    extra: dict[str, Any] = {
        "median": timing.median,
        "ci95": list(timing.ci95),
        "noise_floor": timing.noise_floor,
        "samples": len(timing.samples_s),
        "number": timing.number,
        "verified": verified,
    }
    if timing.cut_short:
        extra["cut_short"] = True
    if timing.dropped or timing.throttled:
        extra |= {"dropped": timing.dropped, "throttled": timing.throttled}
    if timing.clocks is not None:
        extra["clocks"] = {
            "sm_mhz": timing.clocks.sm_mhz,
            "memory_mhz": timing.clocks.memory_mhz,
            "temperature_c": timing.clocks.temperature_c,
        }
    if built.resources:
        extra["resources"] = built.resources
    return extra
