"""One public function, a call of it that is right, and what makes it wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Api:
    """A function of the public surface.

    Attributes:
        name: as a user writes it.
        call: takes the arguments by name; lists stand for those taken by position.
        good: makes arguments with which the call is right.
        bad: argument -> values that make it wrong, all others staying right.
        says: what an error says of an argument whose name it does not use.
    """

    name: str
    call: Callable[..., Any]
    good: Callable[[], dict[str, Any]]
    bad: Mapping[str, Sequence[Any]]
    says: Mapping[str, str] | None = None

    def word(self, argument: str) -> str:
        """Return what the error must name."""
        return (self.says or {}).get(argument, argument)
