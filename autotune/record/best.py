"""The best of several records of one task: by an objective, or by the final race."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.measure.objective import TIME, Objective
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


def beats(new: Pair, held: Pair, objective: Objective = TIME) -> bool:
    """Return whether the later of two records of one task is the better one.

    Races are of times; other objectives compare what the records say. Having run side by side
    counts more than times of trials, whichever of them comes first in the log; what has not run
    side by side is compared by its mean. Of two races the later counts.
    """
    if objective is TIME and held[0].key in beaten_by(new[1]):
        return True
    if objective is TIME and new[0].key in beaten_by(held[1]):
        return False
    return objective.cost(*new) < objective.cost(*held)


def best_of(pairs: Iterable[Pair], objective: Objective = TIME) -> Pair | None:
    """Return the best of the records of one task, in the order of their log; None if all failed.

    Records that do not say what is minimised, such as energy, are left out.

    It is a race exactly where a race was held whose winner no other record beats. Give records
    with the winners of races (``load_from_file(log, races=True)``), or none is known.
    """
    best: Pair | None = None
    for pair in pairs:
        if objective.knows(*pair) and (best is None or beats(pair, best, objective)):
            best = pair
    return best


def of_older_text(pairs: Sequence[Pair]) -> list[bool]:
    """Return of each record whether a later one has its candidate with another kernel text.

    The kernel was edited between the two, so that the time of the earlier one is of no use. What
    was not measured again is not known to be older; that only its template tells.
    """
    keys = [(str(inp.target), inp.task, inp.key, result.evidence.device_class)
            for inp, result in pairs]  # fmt: skip
    hashes = [result.evidence.kernel_hash for _, result in pairs]
    latest = {key: text for key, text in zip(keys, hashes, strict=True) if text}
    return [bool(text) and latest[key] != text for key, text in zip(keys, hashes, strict=True)]


def best_of_each(pairs: Iterable[Pair], objective: Objective = TIME) -> list[Pair]:
    """Return the best record of each task, see `best_of`; none of a task whose trials all failed.

    They are in the order in which their tasks appear first.
    """
    by_task: dict[Workload, list[Pair]] = {}
    for pair in pairs:
        by_task.setdefault(pair[0].task, []).append(pair)
    return [best for one in by_task.values() if (best := best_of(one, objective)) is not None]
