"""Measuring records again: do their times and answers still hold?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from autotune.measure.pipeline import Pipeline
from autotune.measure.types import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.task import Task

Pair = tuple[MeasureInput, MeasureResult]
Verdict = Literal["confirmed", "faster", "slower", "wrong", "failed"]

# A new time within this part of the recorded one confirms it, whatever the intervals say: between
# two runs of a program clocks and the state of the machine change more than within one.
_ALWAYS_SAME = 0.05


@dataclass(frozen=True)
class Recheck:
    """One record measured again."""

    measure_input: MeasureInput
    recorded: MeasureResult
    measured: MeasureResult
    verdict: Verdict


def recheck(
    records: Iterable[Pair], measure_option: Mapping[str, Any], *, every: bool = False
) -> Iterator[Recheck]:
    """Build, verify and time records of a log again.

    Args:
        records: of any tasks; failed ones are passed over.
        measure_option: who builds and runs. Give the runner ``verify="all"`` to have all answers
            checked; by default it checks what is faster than all before and some others.
        every: all records that worked, not just the best of each task.
    """
    by_task: dict[Task, list[Pair]] = {}
    for inp, result in records:
        if result.ok and result.costs:
            by_task.setdefault(inp.task, []).append((inp, result))
    for task, pairs in by_task.items():
        chosen = pairs if every else [min(pairs, key=lambda pair: pair[1].mean)]
        with Pipeline(task, measure_option) as pipeline:
            yield from _again(pipeline, task, chosen)


def _again(pipeline: Pipeline, task: Task, pairs: list[Pair]) -> Iterator[Recheck]:
    waiting = list(pairs)
    recorded = iter(pairs)
    while waiting or pipeline.outstanding:
        room = pipeline.room()
        pipeline.submit([inp._replace(task=task) for inp, _ in waiting[:room]])
        waiting = waiting[room:]
        for _, result in pipeline.next_results():
            inp, before = next(recorded)
            yield Recheck(inp, before, result, verdict(before, result))


def verdict(recorded: MeasureResult, measured: MeasureResult) -> Verdict:
    """Compare a record with a new measurement of it."""
    if measured.error_no == MeasureErrorNo.WRONG_ANSWER:
        return "wrong"
    if measured.error_no:
        return "failed"
    ratio = measured.mean / recorded.mean
    if abs(ratio - 1) <= _ALWAYS_SAME or _overlap(recorded, measured):
        return "confirmed"
    return "slower" if ratio > 1 else "faster"


def _overlap(a: MeasureResult, b: MeasureResult) -> bool:
    first, second = a.extra.get("ci95"), b.extra.get("ci95")
    if not first or not second:
        return False
    return bool(first[0] <= second[1] and second[0] <= first[1])
