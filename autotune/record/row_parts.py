"""A fast reader of rows that AutoTVM writes, which caches the parts that rows share.

The rows of a log have the text of their task, of most choices and of their end in common. A row is
cut at marks into parts, each JSON by itself, and a part that was read before is not parsed again.
Where to cut is a guess, which is verified: if all parts are JSON values, joined by what is between
them, they are the JSON of the whole. Any other row is parsed as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from autotune.errors import RecordError
from autotune.record.fields import Entities, Tasks
from autotune.record.workload_json import form_of
from autotune.target import Target
from autotune.task import Task
from autotune.task.kinds import Entity

_decoder: Any = json.JSONDecoder()
# Without the copies of the text that `json.loads` makes.
read_json: Callable[..., tuple[Any, int]] = _decoder.raw_decode
# The same where no space comes first; what is no JSON ends in StopIteration as well.
_scan: Callable[[str, int], tuple[object, int]] = _decoder.scan_once

_CONFIG = ', "config": {"index": '
_HASH = ', "code_hash": '
_ENTITY = ', "entity": [["'
_UNHASHED = f"{_HASH}null{_ENTITY}"
_CHOICE = '], ["'
_RESULT = ']]}, "result": '
_PARTS = frozenset(("input", "config", "result"))
_VERSIONS = frozenset(("version", "tvm_version"))


class NoJsonError(RecordError):
    """A line is not JSON, perhaps because it is incomplete."""


class TrailingTextError(RecordError):
    """A line continues after its record."""


def no_json(error: json.JSONDecodeError) -> RecordError:
    """Returns what to say of a line that is no JSON."""
    if error.msg != "Extra data":
        return NoJsonError(f"not JSON ({error.msg} at character {error.pos + 1})")
    rest = error.doc[error.pos :].lstrip()
    where = f"from character {len(error.doc) - len(rest) + 1} on"
    if rest.startswith("{"):
        return TrailingTextError(f"more than one record in a line, the second {where}")
    return TrailingTextError(f"text after the record, {where}")


class RowParts(NamedTuple):
    """The content of a row.

    Attributes:
        target, task: the workload.
        index, code_hash: of the configuration, not checked.
        entities: its choices.
        numbers: the result, not checked.
        version: version of the row.
        rest: all keys other than AutoTVM's; not to be modified.
    """

    target: Target
    task: Task
    index: Any
    code_hash: object
    entities: dict[str, Entity]
    numbers: object
    version: object
    rest: Mapping[str, object]


class PartReader:
    """Reads the rows of one log.

    Args:
        tasks: the tasks that were met, which rows that are read whole share.
        entities: the choices that were met.
    """

    def __init__(self, tasks: Tasks, entities: Entities) -> None:
        self._tasks = tasks
        self._entities = entities
        self._heads: dict[str, tuple[Target, Task]] = {}
        self._choices = _Choices(entities)
        self._ends: dict[str, tuple[object, dict[str, object]]] = {}
        # What the row before began with, and whose trial it was: mostly those of the next one.
        self._begin = ""
        self._tuned: tuple[Target, Task] | None = None

    def read(self, text: str) -> RowParts | None:
        """Return the content of a row; None when it must be read whole."""
        try:
            if self._tuned is None or not text.startswith(self._begin):
                self._begin, self._tuned = self._meet(text)
            target, task = self._tuned
            index, at = _scan(text, len(self._begin))
            code_hash = None
            if text.startswith(_UNHASHED, at):
                at += len(_UNHASHED)
            else:
                code_hash, at = _hash(text, at)
            result = text.index(_RESULT, at)
            # As `dict` of pairs: a knob that is named twice has its last choice.
            entities = dict(map(self._choices.__getitem__, text[at:result].split(_CHOICE)))
            numbers, end = _scan(text, result + len(_RESULT))
            ending = text[end:]
            version, rest = self._ends.get(ending) or self._end(ending)
            return RowParts(target, task, index, code_hash, entities, numbers, version, rest)
        except Exception:  # a row may hold anything; what is wrong is said of the whole of it
            return None

    def _meet(self, text: str) -> tuple[str, tuple[Target, Task]]:
        """Return what a row begins with, up to its index, and whose trial it is."""
        head = text[: text.index(_CONFIG)]
        known = self._heads.get(head)
        if known is None:
            value = _value(head + "}")
            if value.keys() != {"input"}:
                raise ValueError("more than what was tuned")
            known = self._heads[head] = self._tasks.read(value["input"])
        return head + _CONFIG, known

    def _end(self, text: str) -> tuple[object, dict[str, object]]:
        rest = _value("{" + text.removeprefix(", "))
        if not text.startswith(", ") or not rest or not _PARTS.isdisjoint(rest):
            raise ValueError("not the end of a row")
        if form_of(rest) is not None:
            raise ValueError("a row of another form")
        version = rest.get("v", rest.get("version"))
        common = rest.keys() <= _VERSIONS
        found = version, {key: value for key, value in rest.items() if key not in _VERSIONS}
        if common:
            self._ends[text] = found
        return found


class _Choices(dict[str, tuple[str, Entity]]):
    """Choices by their text, each read when it is met first."""

    def __init__(self, entities: Entities) -> None:
        super().__init__()
        self._entities = entities

    def __missing__(self, text: str) -> tuple[str, Entity]:
        (choice,) = self._entities.read([_value(f'["{text}]')]).items()
        self[text] = choice
        return choice


def _hash(text: str, start: int) -> tuple[object, int]:
    """Return the hash at ``start``, and where the choices behind it begin."""
    if not text.startswith(_HASH, start):
        raise ValueError("no hash behind the index")
    code_hash, at = _scan(text, start + len(_HASH))
    if not text.startswith(_ENTITY, at):
        raise ValueError("no choices behind the hash")
    return code_hash, at + len(_ENTITY)


def _value(text: str) -> Any:
    """Return the value of a text that is one JSON value and nothing else.

    Raises:
        ValueError: it is not.
    """
    value, end = read_json(text)
    if end != len(text):
        raise ValueError("more than one value")
    return value
