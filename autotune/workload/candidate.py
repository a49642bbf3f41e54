"""One thing that is tried for a workload."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol


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

    def to_json(self) -> Any:
        """Return the choices as plain data, from which a record gives an equal candidate."""
        ...
