"""The best of several records of one task: the fastest, or the winner of a race."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.measure.types import MeasureResult, Pair
from autotune.workload import Workload


def is_race(result: MeasureResult) -> bool:
    """Return whether a result is that of a final race, not of a trial on its own."""
    return result.evidence.race is not None


def beaten_by(result: MeasureResult) -> set[str]:
    """Return the keys of the candidates over which the winner of a race is preferred.

    These are all that took part in the race, including the winner, and those that were passed over
    for it; none if the record is not of a race.
    """
    race = result.evidence.race
    return set() if race is None else race.keys


def beats(new: Pair, held: Pair) -> bool:
    """Return whether the later of two records of one task is the better one.

    Having run side by side counts more than times of trials, whichever of them comes first in
    the log; what has not run side by side is compared by its mean. Of two races the later counts.
    """
    if held[0].key in beaten_by(new[1]):
        return True
    if new[0].key in beaten_by(held[1]):
        return False
    return new[1].seconds < held[1].seconds


def best_of(pairs: Iterable[Pair]) -> Pair | None:
    """Return the best of the records of one task, in the order of their log; None if all failed.

    It is a race exactly where a race was held whose winner no other record beats. Give records
    with the winners of races (``load_from_file(log, races=True)``), or none is known.
    """
    best: Pair | None = None
    for pair in pairs:
        if pair[1].ok and pair[1].costs and (best is None or beats(pair, best)):
            best = pair
    return best


def best_of_each(pairs: Iterable[Pair]) -> list[Pair]:
    """Return the best record of each task, see `best_of`; none of a task whose trials all failed.

    They are in the order in which their tasks appear first.
    """
    by_task: dict[Workload, list[Pair]] = {}
    for pair in pairs:
        by_task.setdefault(pair[0].task, []).append(pair)
    return [best for one in by_task.values() if (best := best_of(one)) is not None]
