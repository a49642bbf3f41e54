"""Measures records again, and says whether their times and results are confirmed."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypedDict

from autotune.errors import DeviceError, TemplateError
from autotune.measure.evidence import NOTHING
from autotune.measure.pipeline import Pipeline
from autotune.measure.session import Session
from autotune.measure.types import MeasureErrorNo, MeasureInput, MeasureResult, Pair
from autotune.workload import Workload

Verdict = Literal["confirmed", "faster", "slower", "wrong", "failed", "outdated"]

# A new time within this part of the recorded one confirms it, whatever the intervals say: between
# two runs of a program clocks and the state of the machine change more than within one.
ALWAYS_SAME = 0.05


class TimingArguments(TypedDict):
    """The arguments of a `LocalRunner` that say how it times."""

    enable_cpu_cache_flush: bool
    flush_l2: bool
    use_graph: bool | None
    min_repeat_ms: float


@dataclass(frozen=True)
class TimingConditions:
    """The conditions of timing on which the time of a record depends.

    Attributes:
        flush: whether caches were cold.
        graph: whether CUDA graphs were replayed; None where the runner chose.
        min_repeat_ms: least duration of a sample.
    """

    flush: bool = False
    graph: bool | None = None
    min_repeat_ms: float = 0.0

    @classmethod
    def of(cls, result: MeasureResult) -> TimingConditions:
        """Read it from a record, which keeps what differs from a runner's defaults."""
        known = result.evidence
        return cls(bool(known.flush), known.graph, known.min_repeat_ms or 0.0)

    def arguments(self) -> TimingArguments:
        """Return the arguments of a `LocalRunner` that times in this way."""
        return {
            "enable_cpu_cache_flush": self.flush,
            "flush_l2": self.flush,
            "use_graph": self.graph,
            "min_repeat_ms": self.min_repeat_ms,
        }


@dataclass(frozen=True)
class Recheck:
    """One record measured again."""

    measure_input: MeasureInput
    recorded: MeasureResult
    measured: MeasureResult
    verdict: Verdict

    @property
    def then_s(self) -> float:
        """Seconds of one run by the record."""
        return self.recorded.seconds

    @property
    def now_s(self) -> float:
        """Seconds of one run by the new measurement; infinite when it failed."""
        return self.measured.seconds

    @property
    def change(self) -> float:
        """Relative change of the time; infinite where the record has none."""
        return self.now_s / self.then_s - 1 if self.then_s else math.inf

    @property
    def noise(self) -> float | None:
        """The larger spread of the two measurements, relative to their times, if one is known."""
        return _noise(self.recorded, self.measured)

    @property
    def holds(self) -> bool:
        """Whether the record may still be used: no slower than it says, and not known as wrong."""
        return self.verdict in ("confirmed", "faster")

    @property
    def checked(self) -> bool:
        """Whether the answer was compared with one that is known to be right."""
        return self.verdict == "wrong" or bool(self.measured.evidence.verified)


def recheck(
    records: Iterable[Pair], option_for: Callable[[TimingConditions], Mapping[str, object]]
) -> Iterator[Recheck]:
    """Build, verify and time records of a log again, each in the way it was timed.

    A record of a task that has no template or no device here failed; the others are measured.

    Args:
        records: of any tasks; failed ones are passed over.
        option_for: returns who builds and who runs what was timed in that way. Give the runner
            ``verify="all"`` to have all answers checked; by default it checks what is faster than
            all before and some others.
    """
    alike: dict[tuple[Workload, TimingConditions], list[Pair]] = {}
    for inp, result in records:
        if result.ok and result.costs:
            alike.setdefault((inp.task, TimingConditions.of(result)), []).append((inp, result))
    sessions: dict[TimingConditions, Session] = {}
    with contextlib.ExitStack() as opened:
        for (task, way), pairs in alike.items():
            if way not in sessions:  # its processes measure all that was timed so
                option = option_for(way)
                session = sessions[way] = Session.of(option)
                if session is not option:
                    opened.enter_context(session)
            yield from _again_or_failed(task, sessions[way], pairs)


def _again_or_failed(task: Workload, session: Session, pairs: list[Pair]) -> Iterator[Recheck]:
    """Measure the records of one task again; where none of it can run here, they failed."""
    measured = 0
    try:
        with Pipeline(task, session) as pipeline:
            for one in _again(pipeline, task, pairs):
                measured += 1
                yield one
    except (TemplateError, DeviceError) as error:
        refused = isinstance(error, TemplateError)
        number = MeasureErrorNo.INSTANTIATION_ERROR if refused else MeasureErrorNo.RUNTIME_DEVICE
        failed = MeasureResult((), number, 0.0, time.time(), str(error), NOTHING)
        yield from (Recheck(inp, before, failed, "failed") for inp, before in pairs[measured:])


def _again(pipeline: Pipeline, task: Workload, pairs: list[Pair]) -> Iterator[Recheck]:
    waiting = list(pairs)
    recorded = iter(pairs)
    while waiting or pipeline.outstanding:
        room = pipeline.room()
        pipeline.submit([inp._replace(task=task) for inp, _ in waiting[:room]])
        waiting = waiting[room:]
        for _, result in pipeline.next_results():
            inp, before = next(recorded)
            emulated = inp.target is not None and inp.target.emulate
            yield Recheck(inp, before, result, verdict(before, result, emulated))


def verdict(recorded: MeasureResult, measured: MeasureResult, emulated: bool = False) -> Verdict:
    """Compare a record with a new measurement of it; the time of an emulator says nothing."""
    if measured.error_no == MeasureErrorNo.WRONG_ANSWER:
        return "wrong"
    if measured.error_no:
        return "failed"
    if emulated:
        return "confirmed"
    before = recorded.seconds
    # A record without a time that something may have taken cannot hold.
    ratio = measured.seconds / before if 0 < before < math.inf else math.inf
    same = max(ALWAYS_SAME, _noise(recorded, measured) or 0)
    if abs(ratio - 1) <= same or _overlap(recorded, measured):
        return "confirmed"
    return "slower" if ratio > 1 else "faster"


def _noise(recorded: MeasureResult, measured: MeasureResult) -> float | None:
    return max(filter(None, (recorded.spread, measured.spread)), default=None)


def _overlap(a: MeasureResult, b: MeasureResult) -> bool:
    first, second = _interval(a), _interval(b)
    return (
        first is not None
        and second is not None
        and (first[0] <= second[1] and second[0] <= first[1])
    )


def _interval(result: MeasureResult) -> tuple[float, float] | None:
    """Return the confidence interval of a time; None if it is unknown or does not contain it."""
    interval = result.evidence.ci95
    if not interval:
        return None
    low, high = interval
    near = low * (1 - ALWAYS_SAME) <= result.seconds <= high * (1 + ALWAYS_SAME)
    return (low, high) if near else None
