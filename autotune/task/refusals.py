"""Messages that say why records are not used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.task.config_entity import ConfigEntity


@dataclass(frozen=True)
class Refusal:
    """Why a record is not used.

    Attributes:
        why: in words.
        older: whether the template made another kernel of the same choices then.
    """

    why: str
    older: bool = False


# Runs the template that asks with a recorded configuration, and returns what it returns; raises
# what it raises, or an error that says why the configuration is none of the template's.
Attempt = Callable[[ConfigEntity], object]

OLDER = Refusal("its kernel had another text", older=True)


def ignored(refusals: Sequence[Refusal], to_keep: str = "keep_older=True") -> str:
    """Return a text on how many records are not used, and why; empty if all are used.

    Args:
        refusals: why each of them is not.
        to_keep: what the caller is given to use records of an older text; empty if nothing.
    """
    older = [one for one in refusals if one.older]
    strangers = [one for one in refusals if not one.older]
    parts = []
    if older:
        how = f"; {to_keep} keeps such" if to_keep else ""
        parts.append(f"{records_are(len(older))} of an older kernel text, ignored{how}")
    if strangers:
        parts.append(
            f"{records_are(len(strangers))} not in its space as it is now, ignored "
            f"({strangers[0].why})"
        )
    return "; ".join(parts)


def left_out(source: str, older: int, strangers: Sequence[Refusal] = ()) -> str:
    """Return a text on how many records of a source are left out; empty if none are.

    Args:
        source: the origin of the records.
        older: how many are of an older text.
        strangers: why others are not in the space of their template.
    """
    parts = []
    if older:
        parts.append(f"{records_are(older)} of an older kernel text, left out")
    if strangers:
        parts.append(
            f"{records_are(len(strangers))} not in its space as it is now, left out "
            f"({strangers[0].why})"
        )
    return f"{source}: {'; '.join(parts)}" if parts else ""


def records_are(count: int) -> str:
    """Return a count of records as the beginning of a sentence."""
    return "1 record is" if count == 1 else f"{count} records are"
