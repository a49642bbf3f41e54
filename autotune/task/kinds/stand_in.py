"""Partially known entities, as filters see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from autotune.task.kinds.entity import Entity


class StandInMaker(Protocol):
    """The answers of a kind to a filter that is called once for many values of a knob."""

    def entity(self, kind: type[Entity], value: Callable[[], object]) -> object:
        """Return the stand-in for the entity; ``value`` is called when its value is read."""

    def number(self, table: npt.NDArray[np.generic]) -> object:
        """Return the stand-in for a number, from its values for all entities in index order."""

    def one_of(
        self,
        values: Sequence[object],
        position: int = 0,
        classes: npt.NDArray[np.int64] | None = None,
    ) -> object:
        """Return one of the values, and the others when the filter is called again.

        Args:
            values: any values.
            position: of the element of the entity that is read; 0 for a whole entity.
            classes: for each entity in index order, which of the values it has; by default each
                has its own.
        """


class StandIn:
    """An object that a filter takes for an entity; only its value can be read.

    ``isinstance`` sees the entity's class. Its text, hash and equality would tell what it is not
    to be known; asking for them is refused.

    Args:
        kind: the class of the entity.
        value: returns the value, each time it is read.
        refuse: raises what tells the caller of the filter that it needs the whole entity.
    """

    __slots__ = ("_kind", "_refusal", "_value")
    __class__ = property(lambda self: self._kind)

    def __init__(
        self, kind: type[Entity], value: Callable[[], object], refuse: Callable[[], NoReturn]
    ) -> None:
        self._kind = kind
        self._value = value
        self._refusal = refuse

    def __getattr__(self, name: str) -> object:
        return self._value() if name == self._kind.attribute else self._refusal()

    def _refuse(self, *_: object) -> NoReturn:
        self._refusal()

    __str__ = __repr__ = __format__ = __hash__ = __eq__ = __ne__ = _refuse


class Elements(Sequence[object]):
    """A list that makes its elements when they are read."""

    __slots__ = ("_length", "_make")
    # isinstance() in a filter sees what it would see of the real thing.
    __class__ = property(lambda self: list)

    def __init__(self, length: int, make: Callable[[int], object]) -> None:
        self._length = length
        self._make = make

    def __getitem__(self, position: int | slice) -> object:  # type: ignore[override]
        # A range raises IndexError and TypeError exactly as a list would.
        at = range(self._length)[position]
        return self._make(at) if isinstance(at, int) else [self._make(i) for i in at]

    def __len__(self) -> int:
        return self._length

    def __eq__(self, other: object) -> bool:
        return list(self) == other

    def __repr__(self) -> str:
        return repr(list(self))

    __hash__ = None  # type: ignore[assignment]
