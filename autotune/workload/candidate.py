"""One thing that is tried for a workload."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

_LONGEST_KEY = 200


class Candidate(Hashable, Protocol):
    """A way to compute a workload: the choices, as frozen data; the workload realises them.

    A point of a template's space is one, a list of schedule steps is another. Whatever measures,
    races, records or resumes knows a candidate by its key and its JSON alone.
    """

    @property
    def key(self) -> str:
        """Tells it from all others of its workload; the same in every process and every log.

        Decimal digits are the index of a point of a space, and nothing else has such a key.
        """
        ...

    def to_json(self) -> object:
        """Return the choices as plain data, from which a record gives an equal candidate."""
        ...


def key_to_json(key: str) -> int | str:
    """Return a key in the form of a record: an index is a number, as in AutoTVM."""
    return int(key) if key.isdecimal() else key


def key_from_json(value: object) -> str:
    """Read what `key_to_json` returned.

    Raises:
        ValueError: the value is neither a whole number of at least 0, nor the text of a key.
    """
    if type(value) is int and value >= 0:
        return str(value)
    if isinstance(value, str) and value.isprintable() and 0 < len(value) <= _LONGEST_KEY:
        return value
    raise ValueError(f"the key of a candidate is a number or a short text, not {value!r}"[:200])


def key_order(key: str) -> tuple[int, str]:
    """Return the sort key of a candidate's key: indices as numbers, shorter texts first."""
    return len(key), key
