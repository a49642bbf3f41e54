"""Timing of kernels and statistics of the samples, for any device."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from autotune.errors import MeasureError
from autotune.utils.check import Check

# The least growth of `number` per step when a sample is too short.
_GROWTH = 1.2
# A sample that takes no measurable time is given this many chances to grow.
_MOST_GROWTH_STEPS = 100
# Scales the median absolute deviation to the standard deviation of normal noise.
_MAD_TO_SIGMA = 1.4826
# Probability with which an interval holds the median.
_LEVEL = 0.95


@dataclass(frozen=True)
class TimeOptions:
    """Options of timing.

    Attributes:
        number: runs per sample; increased until a sample takes `min_repeat_ms`.
        repeat: number of samples.
        min_repeat_ms: least milliseconds of one sample.
        cooldown_interval_s: pause after every `repeats_to_cooldown` samples.
        repeats_to_cooldown: see `cooldown_interval_s`.
        flush_cache: whether every run has cold caches; each run is then timed alone.
        use_graph: whether a CUDA graph is replayed, so that launching takes almost no time. By
            default for kernels so short that otherwise mostly the launch would be timed.
        input_sets: number of copies of the arguments among which runs alternate. By default so
            many (within limits) that together they exceed the L2 cache of the GPU or of a core,
            and one if a single set does.
        give_up_after_s: a run longer than this ends the timing, with the time of this run.
        observe: whether each sample records clocks and temperature or, on a CPU, whether the
            kernel lost its core.

    Raises:
        MeasureError: a value is out of range.
    """

    number: int = 10
    repeat: int = 3
    min_repeat_ms: float = 0.0
    cooldown_interval_s: float = 0.0
    repeats_to_cooldown: int = 1
    flush_cache: bool = False
    use_graph: bool | None = None
    input_sets: int | None = None
    give_up_after_s: float | None = None
    observe: bool = True

    def __post_init__(self) -> None:
        check = Check(MeasureError, "TimeOptions")
        for name in ("number", "repeat", "repeats_to_cooldown"):
            check.whole(name, getattr(self, name), least=1)
        for name in ("min_repeat_ms", "cooldown_interval_s"):
            check.number(name, getattr(self, name), least=0)
        check.flag("flush_cache", self.flush_cache)
        check.flag("observe", self.observe)
        if self.use_graph is not None:
            check.flag("use_graph", self.use_graph)
        if self.input_sets is not None:
            check.whole("input_sets", self.input_sets, least=1)
        if self.give_up_after_s is not None:
            check.number("give_up_after_s", self.give_up_after_s, least=0)


@dataclass(frozen=True)
class Clocks:
    """The state of a device at one sample, as far as its driver or its system tells.

    Attributes:
        sm_mhz, memory_mhz: clock rates.
        temperature_c: of the chip.
        slowed_by: why the clocks are lower than asked for, in NVML's words.
        throttled: whether heat or a fault is among the reasons; such samples are dropped. A power
            cap is not: it belongs to how fast this device is.
        preempted: whether the system took a core of the host from what was timed.
        cpu_time: whether the sample counts CPU time, as one thread was timed that lost its core.
            Where several threads were, a preempted sample is dropped.
    """

    sm_mhz: int = 0
    memory_mhz: int = 0
    temperature_c: int = 0
    slowed_by: tuple[str, ...] = ()
    throttled: bool = False
    preempted: bool = False
    cpu_time: bool = False

    @property
    def disturbed(self) -> bool:
        """Whether the sample tells of something else than the kernel."""
        return self.throttled or (self.preempted and not self.cpu_time)


@dataclass(frozen=True)
class Timing:
    """The result of timing one kernel. All times are seconds per run.

    Attributes:
        samples_s: the samples that count, in the order taken.
        number: runs in each sample (of the last ones, when it grew).
        median: of the samples.
        mean: of the samples.
        ci95: confidence interval of the median from order statistics, at 95% or as near as so
            few samples come: the least and the greatest of fewer than six.
        noise_floor: spread of one sample relative to the median, by the median absolute
            deviation; a difference below it between two kernels says nothing. None of one sample.
        dropped: samples thrown away because the device throttled, or several threads were timed
            and one lost its core, or, in a race on a busy host, others took less.
        throttled: whether every sample was throttled; they are kept then, there are no others.
        preempted: of the samples that count, those in which what was timed lost its core.
        cpu_time: whether these count CPU time, see `Clocks`.
        cut_short: whether it ended after one run that was longer than `give_up_after_s`.
        clocks: the device at the last sample that counts.
        input_sets: copies of the arguments that were used in turn.
    """

    samples_s: tuple[float, ...]
    number: int
    median: float
    mean: float
    ci95: tuple[float, float]
    noise_floor: float | None
    dropped: int = 0
    throttled: bool = False
    cut_short: bool = False
    clocks: Clocks | None = None
    input_sets: int = 1
    preempted: int = 0
    cpu_time: bool = False

    def to_json(self) -> dict[str, object]:
        """Return all of it as plain JSON-able data."""
        return asdict(self)


class Sampler(Protocol):
    """Takes samples of one kernel on one set of buffers; many samplers may take turns.

    Attributes:
        input_sets: copies of the arguments that the runs go round.
        alone: whether each run is timed by itself, since something is done before it. A sample
            then takes longer than it tells.
    """

    input_sets: int
    alone: bool

    def sample(self, number: int) -> float:
        """Run ``number`` times and return the seconds all of them took."""
        ...

    def clocks(self) -> Clocks | None:
        """Return the present state of the device, or None if unknown."""
        ...


@runtime_checkable
class TimesSingleRuns(Protocol):
    """A sampler whose device times one run by itself as well as many."""

    def single(self) -> float:
        """Run once on the first set of arguments and return the seconds."""
        ...

    def rewind(self) -> None:
        """Let the next run be on the first set of arguments again."""
        ...


def take_timing(sampler: Sampler, options: TimeOptions) -> Timing:
    """Warm up, take samples according to ``options``, and summarise them.

    Raises:
        MeasureError: the sampler or the options are invalid.
    """
    check = Check(MeasureError, "take_timing")
    check.function("sampler.sample", getattr(sampler, "sample", None), "a number of runs")
    check.kind("options", options, TimeOptions, "TimeOptions")
    first = sampler.sample(1)
    limit = options.give_up_after_s
    if limit is not None and first > limit:
        # The first run also loads the code and fills caches: it alone is no proof.
        first = min(first, sampler.sample(1))
        if first > limit:
            return summarize(
                [first], 1, [sampler.clocks()], cut_short=True, input_sets=sampler.input_sets
            )
    number = max(1, options.number)
    samples: list[float] = []
    clocks: list[Clocks | None] = []
    disturbed = 0
    # A disturbed sample is taken again, up to twice as many in all: a hot device stays hot.
    while len(samples) - disturbed < options.repeat and len(samples) < 2 * options.repeat:
        _cool_down(len(samples), options)
        seconds, number = grown_sample(sampler, number, options.min_repeat_ms * 1e-3)
        samples.append(seconds / number)
        clocks.append(sampler.clocks() if options.observe else None)
        disturbed += is_disturbed(clocks[-1])
    return summarize(samples, number, clocks, input_sets=sampler.input_sets)


def _cool_down(taken: int, options: TimeOptions) -> None:
    if taken and options.cooldown_interval_s > 0 and taken % options.repeats_to_cooldown == 0:
        time.sleep(options.cooldown_interval_s)


def grown_sample(sampler: Sampler, number: int, least_s: float) -> tuple[float, int]:
    """Returns a sample that took at least ``least_s`` seconds, and of how many runs it is.

    One of ``number`` runs that is shorter is taken again with more. The sample itself may tell of
    less time than it took, see `Sampler.alone`.
    """
    seconds, took_s = sample_and_duration(sampler, number)
    for _ in range(_MOST_GROWTH_STEPS):
        if took_s >= least_s:
            break
        wanted = least_s / (took_s / number) + 1 if took_s > 0 else 0.0
        number = math.ceil(max(wanted, number * _GROWTH))
        seconds, took_s = sample_and_duration(sampler, number)
    return seconds, number


def sample_and_duration(sampler: Sampler, number: int) -> tuple[float, float]:
    """Return the seconds of a number of runs, and the duration of the sample.

    The two are equal for runs that follow each other; other work for a sample, such as building a
    graph, is done once.
    """
    started = time.perf_counter()
    seconds = sampler.sample(number)
    return seconds, time.perf_counter() - started if sampler.alone else seconds


def is_disturbed(clocks: Clocks | None) -> bool:
    """Returns whether a sample is taken again where that can be: see `Clocks.disturbed`."""
    return clocks is not None and clocks.disturbed


def summarize(
    samples_s: Sequence[float] | npt.NDArray[Any],
    number: int,
    clocks: Sequence[Clocks | None] = (),
    cut_short: bool = False,
    input_sets: int = 1,
) -> Timing:
    """Summarise samples, without those that were disturbed.

    Args:
        samples_s: seconds of one run, for each sample; at least one.
        number: runs in each sample.
        clocks: state of the device at each sample, or empty.
        cut_short: see `Timing`.
        input_sets: see `Timing`.

    Raises:
        MeasureError: there is no sample, or one is not a valid time.
    """
    if isinstance(samples_s, np.ndarray):
        samples_s = samples_s.tolist()
    _check_samples(samples_s, number, clocks)
    states = list(clocks) or [None] * len(samples_s)
    kept = [i for i, state in enumerate(states) if not is_disturbed(state)]
    used = kept or list(range(len(samples_s)))
    known = [state for i in used if (state := states[i]) is not None]
    samples = np.array([samples_s[i] for i in used], np.float64)
    median = float(np.median(samples))
    spread = _MAD_TO_SIGMA * float(np.median(np.abs(samples - median)))
    return Timing(
        samples_s=tuple(samples.tolist()),
        number=number,
        median=median,
        mean=float(samples.mean()),
        ci95=median_interval(samples.tolist()),
        noise_floor=spread / median if len(samples) > 1 and median > 0 else None,
        dropped=len(samples_s) - len(used),
        throttled=not kept and any(state.throttled for state in known),
        cut_short=cut_short,
        clocks=states[used[-1]],
        input_sets=input_sets,
        preempted=sum(state.preempted for state in known),
        cpu_time=any(state.cpu_time for state in known),
    )


def _check_samples(samples_s: object, number: object, clocks: object) -> None:
    check, expected = Check(MeasureError, "summarize"), "a list of at least one time in seconds"
    if not isinstance(samples_s, Sequence) or isinstance(samples_s, str) or not samples_s:
        check.refuse("samples_s", expected, samples_s)
    for i, seconds in enumerate(samples_s):
        check.number(f"samples_s[{i}]", seconds, least=0)
    check.whole("number", number, least=1)
    states = check.sequence("clocks", clocks, "a list of clocks")
    if len(states) not in (0, len(samples_s)):
        check.refuse("clocks", f"a list of {len(samples_s)}, one for each sample", clocks)


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return a confidence interval of the median that assumes no distribution.

    The number of samples below the median is binomial with probability one half, so the k-th
    smallest and k-th largest sample enclose it with a probability that only their rank decides;
    the narrowest pair that reaches 95 % is taken, or the extremes where none does.
    """
    ordered = sorted(samples)
    rank = median_rank(len(ordered))
    return ordered[rank], ordered[len(ordered) - 1 - rank]


@functools.cache
def median_rank(n: int) -> int:
    """Return how many of ``n`` samples are outside such an interval at either end."""
    rank, outside = 0, 2 * 0.5**n
    while rank < (n - 1) // 2:
        following = outside + 2 * math.comb(n, rank + 1) * 0.5**n
        if 1 - following < _LEVEL:
            break
        rank, outside = rank + 1, following
    return rank
