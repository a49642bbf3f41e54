"""Lines of a log, of templates or of the auto-scheduler, as trials.

The auto-scheduler is loaded when the first line of it comes: most logs have none, and it takes as
long to load as all that the page needs besides.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record import RACE_NOTE, encode
from autotune.record.codec import Decoder
from autotune.record.compaction import Lines
from autotune.record.reader import NETWORK_NOTE, protocol_of
from autotune.task import ConfigEntity, Task
from autotune.workload import Candidate, Workload

if TYPE_CHECKING:
    from autotune.auto_scheduler import RecordedTask

_LONGEST_TITLE = 200


@dataclass(frozen=True)
class LogEntry:
    """One record.

    Attributes:
        inp, result: the record.
        race: whether it is the note of a race, of what was a trial before.
    """

    inp: MeasureInput
    result: MeasureResult
    race: bool


@dataclass(frozen=True)
class Name:
    """The workload without its target: equal for runs that can be compared.

    Attributes:
        kind: "template", "auto_scheduler" or "graph".
        key: tells it from all others of its kind.
        title: in a few words.
    """

    kind: str
    key: str
    title: str


class LineReader:
    """Reads the lines of one log; what many of them share is read once."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._note = ""

    def read(self, text: str) -> LogEntry | None:
        """Return the trial of a line; None for a comment or an empty line.

        Raises:
            RecordError: the line is not a record.
        """
        note, self._note = self._note, text if text.startswith("#") else ""
        line = text.removeprefix("\ufeff").removeprefix(RACE_NOTE)
        race = len(line) != len(text) and RACE_NOTE in text[: len(RACE_NOTE) + 1]
        pair = _scheduled(line, note)
        if pair is None:
            pair = self._decoder.decode(line, protocol_of(line))
        return None if pair is None else LogEntry(pair[0], pair[1], race)


def _scheduled(line: str, note: str) -> Any:
    """Return the record of the auto-scheduler in a line; None for any other line."""
    if '"i"' not in line or '"input"' in line:
        return None
    from autotune.auto_scheduler import record_codec

    if not record_codec.holds_state(line):
        return None
    return record_codec.decode(line, note if note.startswith(record_codec.NOTE) else "")


def _decode(races: bool) -> Callable[[str], Pair | None]:
    reader = LineReader()

    def decode(text: str) -> Pair | None:
        one = reader.read(text)
        return None if one is None or (one.race and not races) else (one.inp, one.result)

    return decode


def _encoded(inp: Any, result: MeasureResult) -> str:
    if is_recorded(inp.task):
        from autotune.auto_scheduler import record_codec

        return record_codec.encode_lines(inp, result)
    return encode(inp, result) + "\n"


# Records of templates and of the auto-scheduler, and what was chosen for networks.
ALL_LINES = Lines(_decode, _encoded, lambda line: line.startswith(NETWORK_NOTE))


def is_recorded(task: object) -> TypeGuard[RecordedTask]:
    """Return whether a task is one of the auto-scheduler, as a record names it."""
    if isinstance(task, Task):
        return False
    from autotune.auto_scheduler import RecordedTask

    return isinstance(task, RecordedTask)


def name_of(task: Workload | RecordedTask) -> Name:
    """Return the name of the workload of a trial."""
    if isinstance(task, Task):
        title = f"{task.name} {_shown(task.args)}"
        return Name("template", json.dumps([task.name, task.args], default=repr), _short(title))
    if is_recorded(task):
        return Name("auto_scheduler", task.workload_key, _scheduled_title(task.workload_key))
    return Name("graph", f"{task.name}\n{task.key}", _short(task.name))


def choices_of(candidate: Candidate) -> list[tuple[str, object, object]]:
    """Return name, an object that is the same where the choice is, and its value as in a record.

    Of a template these are its knobs; of the auto-scheduler how loops are split and what is
    unrolled, under the stage and the loop.
    """
    if isinstance(candidate, ConfigEntity):
        return [(name, one, one) for name, one in candidate.recorded.items()]
    from autotune.auto_scheduler import RecordedState

    if isinstance(candidate, RecordedState):
        return [one for row in candidate.to_json() if (one := _step(row)) is not None]
    return []


def _step(row: list[object]) -> tuple[str, object, object] | None:
    if row[:1] == ["SP"] and len(row) >= 5:
        return f"split {row[1]}.{row[2]}", None, row[4]
    if row[:1] == ["PR"] and len(row) >= 4:
        return f"pragma {row[1]}.{row[2]}", None, row[3]
    return None


def _scheduled_title(key: str) -> str:
    try:
        name, *args = json.loads(key)
    except (ValueError, TypeError, RecursionError):
        return _short(key)
    return _short(f"{str(name)[:12]} {_shown(args)}")


def _shown(args: object) -> str:
    """Return arguments of a task in few letters: of a tensor its shape and element type."""
    if isinstance(args, (list, tuple)):
        if len(args) == 3 and args[0] == "TENSOR" and isinstance(args[1], (list, tuple)):
            return f"{'x'.join(map(str, args[1]))}:{args[2]}"
        return f"({', '.join(map(_shown, args))})"
    return str(args)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_TITLE else f"{text[: _LONGEST_TITLE - 3]}..."
