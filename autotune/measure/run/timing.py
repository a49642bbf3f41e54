"""How often a candidate runs, and the statistics of its times."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from autotune.errors import MeasureError
from autotune.measure.evidence import Evidence
from autotune.measure.types import without_extremes
from autotune.runtime.timing import (
    Clocks,
    Sampler,
    Timing,
    grown_sample,
    is_disturbed,
    sample_and_duration,
    summarize,
)
from autotune.utils.check import Check

# The very first run also pays for cold caches, lazily loaded code and threads that start; only
# when it is long, and slower by this factor still than what is hopeless, it decides alone.
_COLD_FACTOR = 8.0
_COLD_S = 0.1
# A short run may have met an interrupt, or waited for a scheduler's time slice: so long it is
# repeated before it is called hopeless.
_HOPELESS_S = 10e-3
# So many runs of a sample are reckoned from a shorter one, with this much to spare.
_MANY, _SPARE = 100, 1.03

# Trials up to this much slower than the fastest may be the fastest in truth.
CLOSE = 1.1
# Reading a clock takes some ten nanoseconds on a CPU, and a microsecond between two events on a
# GPU: a sample lasts so long that neither shows in the time of one run.
_LEAST_BATCH_S = 50e-6
# Where something is done before each run, the first few find the kernel's own code cold.
_LEAST_BATCH_ALONE_S = 1e-3


@dataclass(frozen=True)
class TimingPolicy:
    """Options of the timing of a candidate.

    Attributes:
        number: runs of one sample; more where they would take less than `min_repeat_ms`, or than
            50 us. Where each run is timed by itself, on cold caches or over restored arguments,
            what is done before each counts as well, and they take a millisecond at least.
        repeat: samples at least.
        min_repeat_ms: least duration of a sample.
        hopeless: a candidate this many times slower than the best is run until that is beyond
            doubt and no more; 0 turns that off, and has the energy of all measured where it is.
        near: up to this many times the best, samples are added until the interval is small.
        interval: half width of the 95 % confidence interval, relative, that is small enough.
        max_repeats: samples at most.
        budget_s: seconds that added samples may take.
        energy_s: seconds that a candidate runs at least for its energy, where that is measured.
        energy_near_s: as long if it takes up to `near` times the least energy so far.
    """

    number: int = 4
    repeat: int = 3
    min_repeat_ms: float = 0.0
    hopeless: float = 4.0
    near: float = 1.05
    interval: float = 0.01
    max_repeats: int = 20
    budget_s: float = 0.5
    energy_s: float = 0.5
    energy_near_s: float = 1.5

    def __post_init__(self) -> None:
        check = Check(MeasureError, "TimingPolicy")
        for name in ("number", "repeat", "max_repeats"):
            check.whole(name, getattr(self, name), least=1)
        for name in ("min_repeat_ms", "hopeless", "near", "interval", "budget_s"):
            check.number(name, getattr(self, name), least=0)
        check.seconds("energy_s", self.energy_s)
        check.seconds("energy_near_s", self.energy_near_s)


def costs_of(timing: Timing) -> tuple[float, ...]:
    """Return the costs of a record; their median is that of all samples."""
    return without_extremes(timing.samples_s)


def scale_timing(timing: Timing, factor: float) -> Timing:
    """Return a timing with all its times multiplied."""
    if factor == 1:
        return timing
    low, high = timing.ci95
    return replace(
        timing,
        samples_s=tuple(one * factor for one in timing.samples_s),
        median=timing.median * factor,
        mean=timing.mean * factor,
        ci95=(low * factor, high * factor),
    )


def half_width(timing: Timing) -> float:
    """Return half of the confidence interval relative to the median."""
    low, high = timing.ci95
    return (high - low) / 2 / timing.median if timing.median else 0.0


def _nothing() -> None:
    """Get nothing ready."""


@dataclass(frozen=True)
class FirstRuns:
    """The first runs of a candidate, where they were made before it is timed.

    Attributes:
        seconds: of each by itself.
        get_ready: called before the samples; not for a candidate that is cut short.
    """

    seconds: tuple[float, ...] = ()
    get_ready: Callable[[], None] = _nothing


NO_FIRST_RUNS = FirstRuns()


def take_samples(
    sampler: Sampler,
    policy: TimingPolicy,
    best_s: float | None,
    first_runs: FirstRuns = NO_FIRST_RUNS,
) -> Timing:
    """Time one candidate.

    Args:
        sampler: runs the candidate.
        policy: how often.
        best_s: seconds of the best candidate so far, if there is one.
        first_runs: its first runs, where they were made already.
    """
    hopeless_s = policy.hopeless * best_s if best_s and policy.hopeless else math.inf
    made = first_runs.seconds
    first = made[0] if made else sampler.sample(1)
    if first > max(_COLD_S, _COLD_FACTOR * hopeless_s):
        return _cut_short(sampler, min([first, *made]), 1)
    second, runs = _first_sample(sampler, hopeless_s, made[1:])
    if second > hopeless_s:
        return _cut_short(sampler, second, runs)
    first_runs.get_ready()
    least_s = max(least_batch_s(sampler), policy.min_repeat_ms * 1e-3)
    number = policy.number
    if not sampler.alone:
        number = max(number, runs_lasting(sampler, least_s, second))
    taker = _Taker(sampler, policy, number, least_s)
    while taker.trusted < max(1, policy.repeat):
        taker.take()
    taker.refine(best_s)
    return taker.timing()


def _first_sample(sampler: Sampler, hopeless_s: float, made: Sequence[float]) -> tuple[float, int]:
    """Return an estimate of the seconds of one run, and the number of runs behind it.

    A single run is enough unless the candidate would be given up because of it. Then the estimate
    is the least of several samples that are long enough for the resolution of the clock. A sample
    may make more runs than are counted, so the elapsed time is limited as well.
    """
    least = spent = made[0] if made else sampler.sample(1)
    number = runs = 1
    started = time.perf_counter()
    while least > hopeless_s and max(spent, time.perf_counter() - started) < _HOPELESS_S:
        seconds, number = grown_sample(sampler, number, least_batch_s(sampler))
        spent += seconds
        if seconds / number < least:
            least, runs = seconds / number, number
    return least, runs


def least_batch_s(sampler: Sampler) -> float:
    """Returns how long a sample must take, so that overheads and the clock do not distort it."""
    return _LEAST_BATCH_ALONE_S if sampler.alone else _LEAST_BATCH_S


def runs_lasting(sampler: Sampler, least_s: float, single_s: float) -> int:
    """Returns how many runs in a row take so long.

    A single run takes longer than one of many, so a sample whose size is computed from it is too
    short and is taken again. Where that is expensive, a tenth of the runs are made first.
    """
    runs = math.ceil(least_s / max(single_s, 1e-9))
    if runs < _MANY:
        return runs
    some = runs // 10
    _, took_s = sample_and_duration(sampler, some)
    return math.ceil(_SPARE * least_s * some / took_s) if took_s > 0 else runs


def _cut_short(sampler: Sampler, seconds: float, number: int) -> Timing:
    states = [sampler.clocks()]
    return summarize([seconds], number, states, cut_short=True, input_sets=sampler.input_sets)


class _Taker:
    """Collects samples of at least the wanted duration."""

    def __init__(
        self, sampler: Sampler, policy: TimingPolicy, number: int, least_s: float
    ) -> None:
        self._sampler = sampler
        self._policy = policy
        self._number = number
        self._least_s = least_s
        self._seconds: list[float] = []
        self._clocks: list[Clocks | None] = []
        self._most_preempted = 2 * policy.repeat
        self.trusted = 0

    def take(self) -> None:
        """Add one sample; one that is too short is taken again with more runs."""
        total_s, self._number = grown_sample(self._sampler, self._number, self._least_s)
        self._seconds.append(total_s / self._number)
        clocks = self._sampler.clocks()
        self._clocks.append(clocks)
        # A device that throttles all the time must not keep us here, nor a host that is always
        # busy: then bad times are taken.
        most = self._policy.max_repeats
        if clocks is not None and not clocks.throttled:
            most = min(most, self._most_preempted)
        taken = len(self._seconds)
        if not is_disturbed(clocks) or taken > most or taken >= self._policy.max_repeats:
            self.trusted += 1

    def timing(self) -> Timing:
        """Sum up, without the samples that were disturbed."""
        sets = self._sampler.input_sets
        return summarize(self._seconds, self._number, self._clocks, input_sets=sets)

    def refine(self, best_s: float | None) -> None:
        """Near the best, add samples until the median is known well enough."""
        policy = self._policy
        if best_s is None or policy.repeat < 2:
            return
        started = time.perf_counter()
        while len(self._seconds) < policy.max_repeats:
            timing = self.timing()
            if timing.median > policy.near * best_s or half_width(timing) <= policy.interval:
                return
            if time.perf_counter() - started > policy.budget_s:
                return
            self.take()


def evidence_of(timing: Timing) -> Evidence:
    """Return what a record keeps of a timing besides the costs."""
    some = bool(timing.dropped or timing.throttled)
    clocks = timing.clocks
    return Evidence.known(
        {
            "ci95": timing.ci95,
            "noise_floor": timing.noise_floor,
            "samples": len(timing.samples_s),
            "number": timing.number,
            "cut_short": timing.cut_short or None,
            "dropped": timing.dropped if some else None,
            "throttled": timing.throttled if some else None,
            "clocks": _told(clocks) if clocks is not None and clocks.sm_mhz else None,
            "clock": "cpu" if timing.cpu_time else None,
            "preempted": timing.preempted or None,
        }
    )


def _told(clocks: Clocks) -> dict[str, object]:
    return {
        "sm_mhz": clocks.sm_mhz,
        "memory_mhz": clocks.memory_mhz,
        "temperature_c": clocks.temperature_c,
    }
