"""The kind of knob that is one of listed values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NoReturn

import numpy as np

from autotune.errors import SpaceError
from autotune.task.json_form import json_text
from autotune.task.kinds.entity import Entity
from autotune.task.kinds.stand_in import StandInMaker
from autotune.task.kinds.transform_space import FloatTable, TransformSpace
from autotune.utils.check import Check

_CHECK = Check(SpaceError)
# Not lists of values: their order changes from run to run, or they are one value.
_UNORDERED = (str, bytes, Mapping, Set)
# A column for each of more values would fill the memory, and tell a model little.
_MOST_COLUMNS = 1000
# Types of values that a log can hold, whatever the value.
_PLAIN = {bool, int, float, str, type(None)}


@dataclass(frozen=True, repr=False)
class OtherOptionEntity(Entity):
    """Any JSON value."""

    val: Any  # a template computes with it
    tag: ClassVar[str] = "ot"
    attribute: ClassVar[str] = "val"

    def to_json(self) -> object:
        """Return the JSON form of the value."""
        return self.val

    @classmethod
    def from_json(cls, value: object) -> OtherOptionEntity:
        """Return the entity of a value in JSON form."""
        return cls(value)

    def features(self) -> list[object]:
        """Return the value itself."""
        return [self.value]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float, str, np.generic)):
            raise SpaceError(
                f"a knob is compared with {other!r}; compare its value: cfg[name].val"
            )
        return type(other) is type(self) and bool(self.val == other.val)

    def _refuse(self, *_: object) -> NoReturn:
        raise SpaceError("a knob is used as a number; use its value: cfg[name].val")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
    __pow__ = __rpow__ = __lshift__ = __rlshift__ = __neg__ = __index__ = __int__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __hash__(self) -> int:
        try:
            return hash(self.val)
        except TypeError:
            return hash(type(self.val))  # a list or dict: equal ones have equal types


class OtherOptionSpace(TransformSpace):
    """The values of ``candidate``, in order; each must have a JSON form for the log."""

    kind: ClassVar[type[Entity]] = OtherOptionEntity

    def __init__(self, candidate: Iterable[object]) -> None:
        self._candidate = candidate

    @cached_property
    def _values(self) -> list[object]:
        candidate = self._candidate
        if isinstance(candidate, _UNORDERED) or not isinstance(candidate, Iterable):
            _CHECK.refuse("candidate", "a list of values such as [1, 2, 4]", candidate)
        values = list(candidate)
        if not values:
            raise SpaceError("the list of candidates is empty; candidate must have values, got []")
        if not set(map(type, values)) <= _PLAIN:
            for value in values:
                if not _has_json_form(value):
                    _CHECK.refuse("candidate", "values that a log can hold", value)
        return values

    def is_the_same(self, other: TransformSpace) -> bool:
        """Return whether the other one has the same values in the same order."""
        if not isinstance(other, OtherOptionSpace) or type(other) is not type(self):
            return False
        return repr(other._values) == repr(self._values)  # True is not 1

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> OtherOptionEntity:
        return OtherOptionEntity(self._values[index])

    def __repr__(self) -> str:
        return f"OtherOption({list(self)}) len={len(self)}"

    @cached_property
    def _by_form(self) -> dict[tuple[str, str], int]:
        # Of two equal values the first counts.
        tag, values = self.kind.tag, self._values
        return {(tag, json_text(values[i])): i for i in reversed(range(len(values)))}

    def feature_names(self, name: str) -> list[str]:
        """Return one name for numbers, or one per value."""
        if self.feature_table.shape[1] == 1:
            return [name]
        return [f"{name}={option}" for option in self]

    def traced(self, asked: StandInMaker) -> object:
        """Return an option whose value is a number, or one of those listed, not known yet."""
        values = self._values
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            return asked.entity(OtherOptionEntity, lambda: asked.number(np.array(values)))
        return asked.entity(OtherOptionEntity, lambda: asked.one_of(values))

    def _feature_table(self) -> FloatTable:
        return number_or_one_hot(self._values)


def number_or_one_hot(values: Sequence[object]) -> FloatTable:
    """Return one column of numbers, or one column per value if some are not numbers.

    For very many such values, it is one column with their positions in the list.
    """
    numbers = [float(value) for value in values if isinstance(value, (bool, int, float))]
    if len(numbers) == len(values):
        return np.array(numbers, dtype=np.float64)[:, None]
    if len(values) > _MOST_COLUMNS:
        return np.arange(len(values), dtype=np.float64)[:, None]
    return np.eye(len(values), dtype=np.float64)


def _has_json_form(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _has_json_form(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_has_json_form, value))
    return value is None or isinstance(value, (str, int, float, np.generic, np.ndarray))
