"""Rows in the form in which AutoTVM writes them, read part by part.

The rows of a log share the text of their task, of most choices and of their end. A text is cut at
marks into parts, each of which is JSON by itself, so that a part that was met before need not be
read again. Where to cut is a guess; that it was right is not: parts that are JSON values one by
one, joined by what stands between them, are the JSON of the whole. Any other row is read whole.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from autotune.record.fields import Entities, Tasks
from autotune.target import Target
from autotune.task import Task
from autotune.task.entities import Entity

# Without the copies of the text that `json.loads` makes.
read_json = json.JSONDecoder().raw_decode

_CONFIG = ', "config": {"index": '
_HASH = ', "code_hash": '
_ENTITY = ', "entity": [["'
_CHOICE = '], ["'
_NONE = "null"
_RESULT = ']]}, "result": '
_PARTS = frozenset(("input", "config", "result"))
_VERSIONS = frozenset(("version", "tvm_version"))


class RowParts(NamedTuple):
    """What stands in a row.

    Attributes:
        target, task: what was tuned.
        index, code_hash: of the configuration, not checked.
        entities: its choices.
        numbers: the result, not checked.
        rest: all other keys.
    """

    target: Target
    task: Task
    index: Any
    code_hash: Any
    entities: dict[str, Entity]
    numbers: Any
    rest: dict[str, Any]


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
        self._choices: dict[str, tuple[str, Entity]] = {}
        self._ends: dict[str, dict[str, Any]] = {}

    def read(self, text: str) -> RowParts | None:
        """Return what stands in a row; None when it must be read whole."""
        known = self._choices
        try:
            index = text.index(_CONFIG)
            code_hash = text.index(_HASH, index)
            entity = text.index(_ENTITY, code_hash)
            result = text.index(_RESULT, entity)
            head = text[:index]
            target, task = self._heads.get(head) or self._head(head)
            choices = text[entity + len(_ENTITY) : result].split(_CHOICE)
            entities = dict([known.get(one) or self._choice(one) for one in choices])
            hashed = text[code_hash + len(_HASH) : entity]
            numbers, end = read_json(text, result + len(_RESULT))
            return RowParts(
                target,
                task,
                _value(text[index + len(_CONFIG) : code_hash]),
                None if hashed == _NONE else _value(hashed),
                entities,
                numbers,
                self._end(text[end:]),
            )
        except Exception:  # a row may hold anything; what is wrong is said of the whole of it
            return None

    def _head(self, text: str) -> tuple[Target, Task]:
        value = _value(text + "}")
        if value.keys() != {"input"}:
            raise ValueError("more than what was tuned")
        head = self._heads[text] = self._tasks.read(value["input"])
        return head

    def _choice(self, text: str) -> tuple[str, Entity]:
        (choice,) = self._entities.read([_value(f'["{text}]')]).items()
        self._choices[text] = choice
        return choice

    def _end(self, text: str) -> dict[str, Any]:
        known = self._ends.get(text)
        if known is not None:
            return known.copy()
        rest = _value("{" + text.removeprefix(", "))
        if not text.startswith(", ") or not rest or not _PARTS.isdisjoint(rest):
            raise ValueError("not the end of a row")
        if rest.keys() <= _VERSIONS:
            self._ends[text] = rest.copy()
        return dict(rest)


def _value(text: str) -> Any:
    """Return the value of a text that is one JSON value and nothing else.

    Raises:
        ValueError: it is not.
    """
    value, end = read_json(text)
    if end != len(text):
        raise ValueError("more than one value")
    return value
