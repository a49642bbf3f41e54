"""Knobs with a list of arbitrary values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autotune.errors import SpaceError
from autotune.task.entities import OtherOptionEntity
from autotune.task.transform_space import FloatTable, TransformSpace, number_or_one_hot


class OtherOptionSpace(TransformSpace):
    """The values of ``candidate``, in order; each must have a JSON form to stand in a log."""

    def __init__(self, candidate: Iterable[Any]) -> None:
        self._options = [OtherOptionEntity(value) for value in candidate]
        if not self._options:
            raise SpaceError("the list of candidates is empty; give at least one value")

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
