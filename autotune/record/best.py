"""The best of several records of one task: by an objective, or by the final race."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from autotune.measure.objective import TIME, Objective
from autotune.measure.types import MeasureResult, Pair
from autotune.workload import Workload

# Target, task, candidate and device.
_Key = tuple[str, Workload, str, str | None]


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


class TextOf(NamedTuple):
    """What of a record tells whether it is of an older text.

    Attributes:
        key: of its candidate.
        text: the hash of its kernel's text; None where the record has none.
        when: it was measured.
        raced: the candidates over which it was preferred in a race.
    """

    key: _Key
    text: str | None
    when: float
    raced: tuple[str, ...]


def text_of(pair: Pair) -> TextOf:
    """Return which text a record is of."""
    inp, result = pair
    key = str(inp.target), inp.task, inp.key, result.evidence.device_class
    raced = tuple(beaten_by(result))
    return TextOf(key, result.evidence.kernel_hash, result.timestamp, raced)


class KernelTexts:
    """Which text the kernel of each candidate had when, as the hashes of records tell.

    Once a kernel was edited and measured again, what was measured before is of no use. What was
    not measured again is not known to be older; that only its template tells.
    """

    def __init__(self) -> None:
        # Times with the text measured then, in order; of equal ones in a row the first and last.
        self._known: dict[_Key, list[tuple[float, str]]] = {}

    def add(self, pair: Pair) -> bool:
        """Take a record in; return whether those of its candidate so far are of an older text."""
        return self.add_text(text_of(pair))

    def add_text(self, one: TextOf) -> bool:
        """Take in which text a record is of; see `add`."""
        key, text, when, _ = one
        if not text:
            return False
        known = self._known.setdefault(key, [])
        # By time, as logs may be joined in any order.
        place = bisect_right(known, when, key=_time)
        newer = place == len(known) > 0 and known[-1][1] != text
        if place > 1 and {known[place - 1][1], known[place - 2][1]} == {text}:
            known[place - 1] = when, text
        else:
            known.insert(place, (when, text))
        return newer

    def is_older(self, pair: Pair) -> bool:
        """Return whether a later record has the candidate, or one it raced, with another text."""
        return self.is_older_text(text_of(pair))

    def is_older_text(self, one: TextOf) -> bool:
        """Return whether a record of this text is older; see `is_older`."""
        (target, task, _, device), text, when, raced = one
        known = self._known.get(one.key)
        if text and known and known[-1][1] != text:
            return True
        return any(self._changed((target, task, key, device), when) for key in raced)

    def _changed(self, key: _Key, since: float) -> bool:
        known = self._known.get(key, [])
        place = bisect_right(known, since, key=_time)
        return place > 0 and known[place - 1][1] != known[-1][1]


def _time(known: tuple[float, str]) -> float:
    return known[0]


def of_older_text(pairs: Sequence[Pair]) -> list[bool]:
    """Return of each record whether it is of an older text, see `KernelTexts`."""
    texts = KernelTexts()
    for pair in pairs:
        texts.add(pair)
    return [texts.is_older(pair) for pair in pairs]


def older_trials(pairs: Sequence[Pair], older: Sequence[bool]) -> int:
    """Return how many records of an older text are trials: races are of trials counted before."""
    both = zip(pairs, older, strict=True)
    return sum(is_older and not is_race(result) for (_, result), is_older in both)


def best_of_each(pairs: Iterable[Pair], objective: Objective = TIME) -> list[Pair]:
    """Return the best record of each task, see `best_of`; none of a task whose trials all failed.

    They are in the order in which their tasks appear first.
    """
    by_task: dict[Workload, list[Pair]] = {}
    for pair in pairs:
        by_task.setdefault(pair[0].task, []).append(pair)
    return [best for one in by_task.values() if (best := best_of(one, objective)) is not None]
