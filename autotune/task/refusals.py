"""Why records are not used, in words for the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.task.config_entity import ConfigEntity


@dataclass(frozen=True)
class Refusal:
    """Why a record is not used."""

    why: str


# Judges a recorded configuration and the hash of the kernel that was measured, where it is known.
Judge = Callable[[ConfigEntity, "str | None"], "Refusal | None"]


def ignored(refusals: Sequence[Refusal]) -> str:
    """Say how many records are not used, and why; an empty string when there are none."""
    if not refusals:
        return ""
    return f"{_records(len(refusals))} not in its space as it is now, ignored ({refusals[0].why})"


def _records(count: int) -> str:
    return "1 record is" if count == 1 else f"{count} records are"
