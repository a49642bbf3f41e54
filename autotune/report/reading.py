"""Reads the records of logs of any origin."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autotune.dashboard import ALL_LINES, name_of
from autotune.errors import RecordError
from autotune.measure.types import Pair
from autotune.record.best import of_older_text, older_trials
from autotune.record.reader import open_log, source_name
from autotune.task.refusals import left_out
from autotune.utils.escaping import shorten, visible
from autotune.utils.names import did_you_mean

# Longest list of the tasks of a log in a message.
_NAMES_WIDTH = 200


def read_records(path: Path | str, task: str | None = None) -> tuple[list[Pair], str]:
    """Return the records of a log with the winners of races, and what was left out, and why.

    Those of an older kernel text are left out, as far as they were measured again.

    Args:
        path: of a log of templates, of graphs or of the auto-scheduler.
        task: the only task that is wanted, by the name of its template or its title.

    Raises:
        LogMissingError: it cannot be opened.
        RecordError: it is not empty, and none of its lines is a record.
    """
    others: set[str] = set()
    pairs: list[Pair] = []
    with open_log(path) as file:
        reader = ALL_LINES.reader(file, str(path), quiet=True)
        for pair in reader:
            if is_of(pair[0].task, task):
                pairs.append(pair)
            else:
                others.add(str(pair[0].task.name))
    if reader.is_no_log:
        raise RecordError(reader.report())
    older = of_older_text(pairs)
    kept = [pair for pair, is_older in zip(pairs, older, strict=True) if not is_older]
    said = left_out(source_name(path), older_trials(pairs, older))
    unknown = "" if pairs or not others else no_such_task(str(task), others)
    strange = unknown and f"{source_name(path)}: {unknown}"
    return kept, "\n".join(filter(None, [reader.report(), said, strange]))


def no_such_task(task: str, names: Iterable[str]) -> str:
    """Return a text that a log has no trial of a task, but of others."""
    known = sorted(names)
    some = visible(shorten(", ".join(known), _NAMES_WIDTH))
    return f"no trial is of task {task!r}{did_you_mean(task, known)}; there are trials of {some}"


def is_of(of: Any, task: str | None) -> bool:
    """Return whether a record is of a task, by its name or title; of any where none is given."""
    return task is None or task in (getattr(of, "name", None), name_of(of).title)
