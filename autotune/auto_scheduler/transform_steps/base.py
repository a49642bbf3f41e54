"""What all transform steps share: they change a state, replay on a schedule, and have a row.

The rows are those of the auto-scheduler's records: a tag of two or three letters, the stage, and
the fields of the step. Stages and loops are numbered as they were when the step was taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

from autotune.errors import RecordError, ScheduleError

if TYPE_CHECKING:
    from autotune.auto_scheduler.loop_state import StateObject
    from autotune.auto_scheduler.replay import Replay

# tag -> class, filled by the subclasses of `TransformStep` themselves.
STEPS: dict[str, type[TransformStep]] = {}
# A record is a text that anybody may have written. No field of a step is larger, or longer.
_LARGEST = 2**63 - 1
_LONGEST = 200
# Loops of a stage, and characters of the name of one, which tells what it was split and fused of.
_LOOPS, _NAME = 100, 2000


@dataclass(frozen=True)
class TransformStep:
    """Base of all steps; ``tag`` names the class in records."""

    tag: ClassVar[str] = ""
    # Whether the step adds a stage, so that later stages get other numbers.
    adds_stage: ClassVar[bool] = False
    stage_id: int

    def __init_subclass__(cls) -> None:
        STEPS[cls.tag] = cls

    def apply(self, state: StateObject) -> StateObject:
        """Return the state with this step taken."""
        raise NotImplementedError

    def replay(self, on: Replay) -> None:
        """Take the step on a schedule; what was said before it has been done there."""
        raise NotImplementedError

    def to_row(self) -> list[Any]:
        """Return the row of the step, ready for `json.dumps`."""
        values = [getattr(self, each.name) for each in fields(self)]
        return [self.tag, *(_plain(value) for value in values)]

    @classmethod
    def from_row(cls, values: Sequence[Any]) -> TransformStep:
        """Return the step of a row without its tag; a ValueError says what is ill-formed."""
        return cls(**dict(zip([each.name for each in fields(cls)], values, strict=True)))

    def __str__(self) -> str:
        return f"{type(self).__name__}{tuple(self.to_row()[1:])}"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, int) else value


def step_from_row(row: Any) -> TransformStep:
    """Return the step that a row of a record holds.

    Raises:
        RecordError: the tag is unknown, or a field is missing or of another type.
    """
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


def whole(value: Any, least: int = 0) -> int:
    """Return a field that has to be an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST:
        raise ValueError(f"expected an int of at least {least} in 64 bits, got {_shown(value)}")
    return value


def wholes(values: Any, least: int = 0) -> tuple[int, ...]:
    """Return a field that has to be a list of ints."""
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"expected a list of ints, got {_shown(values)}")
    return tuple(whole(value, least) for value in values)


def text(value: Any) -> str:
    """Return a field that has to be a short text of one line."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > _LONGEST:
        raise ValueError(f"expected a short text, got {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    try:
        return repr(value)[:_LONGEST]
    except ValueError:  # an int of more digits than python writes
        return "a huge number"


def check_loops(step: TransformStep, names: Sequence[str]) -> None:
    """Refuse loops that nobody needs: so many, or fused and split so often, that all is slow.

    A loop that is split and fused anew has a name of twice the length, and a range as long.
    """
    if len(names) > _LOOPS or any(len(name) > _NAME for name in names):
        raise refuse(
            step, f"a stage has at most {_LOOPS} loops, with names of at most {_NAME} characters"
        )


def refuse(step: TransformStep, why: str) -> ScheduleError:
    """Return the error for a step that cannot be taken."""
    return ScheduleError(f"{brief(step)}: {why}")


def brief(step: TransformStep) -> str:
    """Return a step as it stands in a message."""
    text = str(step)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
