"""Knobs with a list of arbitrary values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

import numpy as np

from autotune.errors import SpaceError
from autotune.task.entities import OtherOptionEntity
from autotune.task.transform_space import FloatTable, TransformSpace, number_or_one_hot
from autotune.utils.check import Check

_CHECK = Check(SpaceError)
# Not lists of values: their order changes from run to run, or they are one value.
_UNORDERED = (str, bytes, Mapping, Set)


class OtherOptionSpace(TransformSpace):
    """The values of ``candidate``, in order; each must have a JSON form to stand in a log."""

    def __init__(self, candidate: Iterable[Any]) -> None:
        if isinstance(candidate, _UNORDERED) or not isinstance(candidate, Iterable):
            _CHECK.refuse("candidate", "a list of values such as [1, 2, 4]", candidate)
        self._options = [OtherOptionEntity(value) for value in candidate]
        if not self._options:
            raise SpaceError("the list of candidates is empty; candidate must have values, got []")
        for option in self._options:
            if not _has_json_form(option.val):
                _CHECK.refuse("candidate", "values that a log can hold", option.val)

    def __len__(self) -> int:
        return len(self._options)

    def __getitem__(self, index: int) -> OtherOptionEntity:
        return self._options[index]

    def __repr__(self) -> str:
        return f"OtherOption({self._options}) len={len(self)}"

    def feature_names(self, name: str) -> list[str]:
        """Return one name for numbers, or one per value."""
        if self.feature_table.shape[1] == 1:
            return [name]
        return [f"{name}={option}" for option in self._options]

    def _feature_table(self) -> FloatTable:
        return number_or_one_hot([option.val for option in self._options])


def _has_json_form(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _has_json_form(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_has_json_form, value))
    return value is None or isinstance(value, (str, int, float, np.generic, np.ndarray))
