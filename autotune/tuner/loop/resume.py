"""Trials of an earlier run of a task, read from its log."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from autotune.errors import SpaceError, TunerError
from autotune.measure import MeasureInput, MeasureResult
from autotune.measure.objective import TIME, Objective
from autotune.measure.types import Pair
from autotune.record import Database, best_of, is_race, load_from_file, open_database
from autotune.record.log_database import log_files
from autotune.record.origin import elsewhere_words, is_from_elsewhere
from autotune.record.outdated import outdated
from autotune.record.paths import is_url, log_path
from autotune.task.refusals import Refusal, ignored, records_are
from autotune.utils.check import shown
from autotune.workload import Workload

logger = logging.getLogger("autotvm")

Records = str | os.PathLike[str] | Database | Iterable[Pair]


@dataclass(frozen=True)
class Earlier:
    """Earlier trials of a task.

    Attributes:
        trials: each candidate once: the latest result, a time before any failure.
        best: the winner of the final race, or what is better by now; None when all failed.
    """

    trials: list[Pair]
    best: Pair | None


def earlier(
    task: Workload,
    records: Records,
    retry: bool = False,
    keep_older: bool = False,
    anywhere: bool = False,
    objective: Objective = TIME,
) -> Earlier:
    """Read the records of a workload that are valid for it now.

    Args:
        task: the workload to be tuned.
        records: a log or whatever `open_database` accepts, which need not exist yet; a database;
            or pairs of input and result.
        retry: whether failed trials are left out, to be measured again.
        keep_older: whether records count whose kernel had another text than now.
        anywhere: whether records count that were measured on another kind of GPU, although their
            times do not apply to this one.
        objective: by which the best is the best.

    Raises:
        TunerError: ``records`` holds no records.
    """
    given = _pairs(records)
    mine = _of_task(task, given if anywhere else _from_here(task, given), keep_older)
    trials: dict[str, Pair] = {}
    # The winner of a race was a trial before; `compact` may have kept only the race of it.
    for pair in sorted(mine, key=lambda pair: is_race(pair[1])):
        key, ok = pair[0].key, pair[1].ok
        held = trials.get(key)
        if held is None and _is_default(pair):
            continue  # which races, and may win, without being one of the trials
        if held is None or (not is_race(pair[1]) and (ok or not held[1].ok)):
            trials[key] = pair
    kept = [pair for pair in trials.values() if pair[1].ok or not retry]
    return Earlier(kept, best_of(mine, objective))


def _is_default(pair: Pair) -> bool:
    """Return whether this is the race that the default configuration won."""
    race = pair[1].evidence.race
    return race is not None and race.default == pair[0].key


def _pairs(records: Records) -> Iterable[Pair]:
    if isinstance(records, Database):
        return records.records(races=True)
    if isinstance(records, str) and is_url(records):
        with open_database(records) as database:
            return list(database.records(races=True))
    if isinstance(records, (str, os.PathLike)):
        # The first start of a run that is always started with resume= has no log yet.
        return [] if _is_empty(records) else load_from_file(records, races=True)
    if not isinstance(records, Iterable):
        raise _no_records(records)
    return records


def history_of(data_set: object) -> list[Pair]:
    """Return the records that `Tuner.load_history` was given.

    Raises:
        TunerError: it was given something else, such as the path of a log.
    """
    given = isinstance(data_set, Iterable) and not isinstance(data_set, (str, bytes))
    pairs: list[Pair] = list(data_set) if given else []  # type: ignore[call-overload]
    if not given or not all(map(_is_pair, pairs)):
        raise TunerError(
            "load_history(data_set=...): expected pairs of input and result, such as "
            f"load_from_file(path) gives, got {shown(data_set)}"
        )
    return pairs


def _is_empty(place: str | os.PathLike[str]) -> bool:
    """Return whether there is no log yet, as in a new folder of logs."""
    path = log_path(place)
    return not path.exists() or (path.is_dir() and not log_files(path))


def _is_pair(pair: object) -> bool:
    kinds = (MeasureInput, MeasureResult)
    return (
        isinstance(pair, (tuple, list))
        and len(pair) == len(kinds)
        and all(isinstance(one, kind) for one, kind in zip(pair, kinds, strict=True))
    )


def _no_records(came: object) -> TunerError:
    return TunerError(
        "tune(resume=...): expected the path of a log or pairs of input and result, got "
        f"{shown(came)}"
    )


def _of_task(task: Workload, pairs: Iterable[Pair], keep_older: bool) -> list[Pair]:
    """Return the records of a task, and warn of those that its template could not make now."""
    refusals: list[Refusal] = []
    mine: list[Pair] = []
    moved = False
    for pair in pairs:
        if not _is_pair(pair):
            raise _no_records(pair)
        inp, res = pair
        if inp.task != task:
            continue
        try:
            point = task.own(inp.config)
        except SpaceError as error:
            refusals.append(Refusal(str(error)))
            continue
        older = None if keep_older else outdated(task, point, inp.config, res)
        if older is None:
            moved = moved or point.key != inp.key
            mine.append((inp._replace(task=task, config=point), res))
        else:
            refusals.append(older)
    if refusals:
        logger.warning("resume: of %s, %s", task.name, ignored(refusals))
    return _without_races(mine) if moved else mine


def _from_here(task: Workload, pairs: Iterable[Pair]) -> Iterable[Pair]:
    """Yield records without those of another kind of device, and warn of these."""
    left_out = 0
    for pair in pairs:
        if task.target is None or not _is_pair(pair) or not is_from_elsewhere(pair, task.target):
            yield pair
            continue
        left_out += pair[0].task == task
        said = elsewhere_words(pair[1], task.target)
    if left_out:
        logger.warning("resume: of %s, %s %s: ignored", task.name, records_are(left_out), said)


def _without_races(pairs: Iterable[Pair]) -> list[Pair]:
    """Return records as trials, without the data of races.

    The keys by which a race names candidates may belong to other points now. And the winner's time
    in a race cannot be compared with times of trials, so its own trial counts, if it is in the
    log.
    """
    tried = {inp.key for inp, res in pairs if not is_race(res)}
    kept = [pair for pair in pairs if not is_race(pair[1]) or pair[0].key not in tried]
    return [(inp, res._replace(evidence=replace(res.evidence, race=None))) for inp, res in kept]


__all__ = ["Earlier", "Records", "earlier"]
