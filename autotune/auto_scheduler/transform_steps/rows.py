"""Rows of transform steps as records have them: a tag, the stage, and the fields of the step.

Stages and loops are numbered as they were when the step was taken.
"""

from __future__ import annotations

from dataclasses import fields

from autotune.auto_scheduler.states.loop_state import STEPS, TransformStep
from autotune.errors import RecordError

# A record is a text that anybody may have written. No field of a step is larger, or longer.
_LARGEST = 2**63 - 1
_LONGEST = 200
# Steps of the rows that were read last, by their texts: records of one log share most of theirs.
_KEPT = 1 << 15
_read = dict[str, TransformStep]()


def step_from_row(row: object) -> TransformStep:
    """Return the step that a row of a record holds; of equal rows it is the same object.

    Raises:
        RecordError: the tag is unknown, or a field is missing or of another type.
    """
    text = _shown(row, None)
    known = _read.get(text)
    if known is None:
        known = _step_of(row)
        if len(_read) >= _KEPT:
            _read.clear()
        _read[text] = known
    return known


def _step_of(row: object) -> TransformStep:
    if not isinstance(row, list) or not row or not isinstance(row[0], str):
        raise RecordError(
            f"a step of a record is a list that begins with its tag, got {_shown(row)}"
        )
    cls = STEPS.get(row[0])
    if cls is None:
        raise RecordError(f"step {_shown(row[0])} is unknown; expected one of {', '.join(STEPS)}")
    try:
        step = cls.from_row(row[1:])
    except (TypeError, ValueError) as error:
        names = ", ".join(each.name for each in fields(cls))
        raise RecordError(f"step {_shown(row)}: expected the fields {names} ({error})") from error
    if step.stage_id < 0:
        raise RecordError(f"step {_shown(row)}: a stage is numbered from 0")
    return step


def whole(value: object, least: int = 0) -> int:
    """Return a field that has to be an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST:
        raise ValueError(f"expected an int of at least {least} in 64 bits, got {_shown(value)}")
    return value


def positive(value: object) -> int:
    """Return a field that has to be an int of at least 1."""
    return whole(value, 1)


def flag(value: object) -> bool:
    """Return a field that has to be 0 or more, as a truth value."""
    return bool(whole(value))


def wholes(values: object, least: int = 0) -> tuple[int, ...]:
    """Return a field that has to be a list of ints."""
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"expected a list of ints, got {_shown(values)}")
    return tuple(whole(value, least) for value in values)


def positives(values: object) -> tuple[int, ...]:
    """Return a field that has to be a list of ints of at least 1."""
    return wholes(values, 1)


def text(value: object) -> str:
    """Return a field that has to be a short text of one line."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > _LONGEST:
        raise ValueError(f"expected a short text, got {_shown(value)}")
    return value


def _shown(value: object, most: int | None = _LONGEST) -> str:
    try:
        return repr(value)[:most]
    except ValueError:  # an int of more digits than python writes
        return "a huge number"
