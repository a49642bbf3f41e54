"""Two logs side by side: how the best time of each workload changed, and how sure that is.

A log has the median of each trial's samples and a confidence interval of the median, but not the
samples. The interval of a ratio of two medians is computed from their intervals by the method of
variance estimates recovery (Zou and Donner, "Construction of confidence limits about effect
measures", Statistics in Medicine 27, 2008), on logarithms of times: the squares of the distances
of the limits from the estimates add up. It is widened by the usual difference of two runs of a
program.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Literal

import numpy as np

from autotune.dashboard import LEAST_SAMPLES, choices_of, name_of
from autotune.measure.types import MeasureResult, Pair
from autotune.record import best_of
from autotune.runtime.timing import median_rank
from autotune.task import Task
from autotune.tuner.loop.result import BETWEEN_RUNS

Verdict = Literal[
    "same", "faster", "slower", "lost", "only before", "only after", "nothing succeeded in either"
]

# Standard deviations on each side of 95% of normal noise.
_Z = NormalDist().inv_cdf(0.975)
# Distance of the limits of one side that two runs of a program give, in logarithms.
_RUNS = _Z * BETWEEN_RUNS
# Part by which a median may be outside its interval and still belong to it.
_NEAR = 0.05
# Fewest workloads whose changes are summed up with an interval.
_FEWEST = 5
_RESAMPLES = 2000


@dataclass(frozen=True)
class Side:
    """The best of one workload in one log.

    Attributes:
        seconds: of one run.
        interval: confidence interval (95%) of that median; None where the log does not say.
        choices: of the configuration.
        key: of the configuration.
    """

    seconds: float
    interval: tuple[float, float] | None
    choices: Mapping[str, object]
    key: str


@dataclass(frozen=True)
class Compared:
    """One workload in two logs.

    Attributes:
        name, args: name and arguments of the workload.
        target: its target.
        before, after: the best record of each log; None if no trial succeeded.
        verdict: "faster" or "slower" if the change exceeds the noise; "lost" if all trials fail
            now.
    """

    name: str
    args: tuple[object, ...]
    target: str
    before: Side | None
    after: Side | None
    verdict: Verdict

    @property
    def ratio(self) -> float | None:
        """The time after, relative to before; 1.1 is 10% slower."""
        if self.before is None or self.after is None:
            return None
        return self.after.seconds / self.before.seconds

    @property
    def interval(self) -> tuple[float, float] | None:
        """Confidence interval (95%) of the ratio."""
        if self.before is None or self.after is None:
            return None
        return ratio_interval(self.before, self.after)

    @property
    def changed(self) -> dict[str, tuple[object, object]]:
        """The knobs whose values differ, with both values."""
        if self.before is None or self.after is None:
            return {}
        old, new = self.before.choices, self.after.choices
        pairs = {name: (old.get(name), new.get(name)) for name in dict.fromkeys([*old, *new])}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def regressed(self, above: float) -> bool:
        """Return whether it is slower beyond the noise, by more than this part; or lost."""
        if self.verdict == "lost":
            return True
        return self.verdict == "slower" and self.ratio is not None and self.ratio > 1 + above


@dataclass
class _Records:
    """The records of one workload, by the log they are from."""

    name: str
    args: tuple[object, ...]
    before: list[Pair] = field(default_factory=list)
    after: list[Pair] = field(default_factory=list)


def compare(before: Iterable[Pair], after: Iterable[Pair]) -> list[Compared]:
    """Compare the best of each workload in two logs, in the order in which they appear.

    Args:
        before: records, with winners of races, of templates or of the auto-scheduler; see
            `autotune.report.read_records`.
        after: the same of the other log.
    """
    found: dict[tuple[str, str, str], _Records] = {}
    for pair in before:
        _records_of(found, pair).before.append(pair)
    for pair in after:
        _records_of(found, pair).after.append(pair)
    return [_compare(target, one) for (target, _, _), one in found.items()]


def _records_of(found: dict[tuple[str, str, str], _Records], pair: Pair) -> _Records:
    inp, task = pair[0], pair[0].task
    name = name_of(task)
    own = (task.name, tuple(task.args)) if isinstance(task, Task) else (name.title, ())
    return found.setdefault((str(inp.target), name.kind, name.key), _Records(*own))


def _compare(target: str, records: _Records) -> Compared:
    old, new = _side(records.before), _side(records.after)
    return Compared(records.name, records.args, target, old, new, _verdict(records, old, new))


def _verdict(records: _Records, old: Side | None, new: Side | None) -> Verdict:
    if old is None and new is None:
        return "nothing succeeded in either"
    if old is None:
        return "only after"
    if new is None:
        return "lost" if records.after else "only before"
    low, high = ratio_interval(old, new)
    return "slower" if low > 1 else "faster" if high < 1 else "same"


def _side(pairs: Sequence[Pair]) -> Side | None:
    best = best_of(pairs)
    if best is None or not math.isfinite(best[1].seconds):
        return None
    inp, result = best
    choices = {name: _plain(value) for name, _, value in choices_of(inp.config)}
    return Side(result.seconds, interval_of(result), choices, inp.key)


def _plain(value: object) -> object:
    return value.to_json() if hasattr(value, "to_json") else value


def interval_of(result: MeasureResult) -> tuple[float, float] | None:
    """Return the confidence interval of the median of a record.

    It is the recorded one, unless that does not contain the median. For a record without it, as
    AutoTVM writes them, it is computed from the costs, without the least and the greatest of which
    these are; None for one sample.
    """
    known, samples = result.evidence.ci95, result.evidence.samples
    if samples is not None and samples < LEAST_SAMPLES:
        return None
    if known is not None:
        low, high = known
        if 0 < low * (1 - _NEAR) <= result.seconds <= high * (1 + _NEAR):
            return min(low, result.seconds), max(high, result.seconds)
        return None
    return _of_costs(result.costs) if len(result.costs) >= LEAST_SAMPLES else None


def _of_costs(costs: Sequence[float]) -> tuple[float, float]:
    """Return an interval of the median of samples, of which two at the ends are missing.

    As if they were there: so a rank among all is one less among these.
    """
    ordered = sorted(costs)
    rank = max(0, median_rank(len(ordered) + 2) - 1)
    return ordered[rank], ordered[len(ordered) - 1 - rank]


def ratio_interval(before: Side, after: Side) -> tuple[float, float]:
    """Return the confidence interval (95%) of the time after, relative to the time before."""
    ratio = math.log(after.seconds) - math.log(before.seconds)
    (down1, up1), (down2, up2) = _distances(after), _distances(before)
    return math.exp(ratio - math.hypot(down1, up2)), math.exp(ratio + math.hypot(up1, down2))


def _distances(side: Side) -> tuple[float, float]:
    """Return how far the limits are from the estimate, in logarithms, with what runs differ by."""
    low, high = side.interval or (side.seconds, side.seconds)
    middle = math.log(side.seconds)
    return (
        math.hypot(middle - math.log(low), _RUNS),
        math.hypot(math.log(high) - middle, _RUNS),
    )


def overall(rows: Iterable[Compared]) -> tuple[float, tuple[float, float] | None] | None:
    """Return the geometric mean of the ratios, and its confidence interval (95%).

    The interval is a percentile bootstrap over workloads, as if these were a random sample; there
    is none for fewer than five workloads. None if no workload is in both logs.
    """
    ratios = [math.log(one.ratio) for one in rows if one.ratio is not None]
    if not ratios:
        return None
    mean = math.exp(sum(ratios) / len(ratios))
    if len(ratios) < _FEWEST or len(set(ratios)) == 1:
        return mean, None
    drawn = np.random.default_rng(0).choice(ratios, (_RESAMPLES, len(ratios))).mean(axis=1)
    low, high = np.exp(np.quantile(drawn, [0.025, 0.975])).tolist()
    return mean, (low, high)
