"""The error of a transform step that cannot be applied."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.errors import ScheduleError

# Characters of a step in a message.
_SHOWN = 200
# Loops of a stage, and characters of the name of one, which tells what it was split and fused of.
_LOOPS, _NAME = 100, 2000


def check_loops(step: object, names: Sequence[str]) -> None:
    """Refuse loops that nobody needs: so many, or fused and split so often, that all is slow.

    A loop that is split and fused anew has a name of twice the length, and a range as long.
    """
    if len(names) > _LOOPS or any(len(name) > _NAME for name in names):
        raise refuse(
            step, f"a stage has at most {_LOOPS} loops, with names of at most {_NAME} characters"
        )


def refuse(step: object, why: str) -> ScheduleError:
    """Return the error for a step that cannot be taken."""
    return ScheduleError(f"{brief(step)}: {why}")


def brief(step: object) -> str:
    """Return a step as it stands in a message."""
    text = str(step)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
