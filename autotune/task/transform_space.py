"""What all kinds of knobs have in common: an ordered, finite set of entities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from autotune.errors import SpaceError
from autotune.task.entities import Entity
from autotune.task.errors import KnobValueError
from autotune.task.json_form import json_text
from autotune.utils.check import shown

FloatTable = npt.NDArray[np.float64]
IntTable = npt.NDArray[np.int64]

# Values of a knob named in a message.
NAMED = 5


class TransformSpace(ABC):
    """The values one knob can take, in index order.

    Attributes:
        num_output: how many axes the knob produces.
        sequence_attribute: name of the entity's attribute that is a sequence of the same length
            for every entity (``size``, ``anns``); empty when there is none. Constraints use it
            to look at single elements.
    """

    num_output: int = 0
    sequence_attribute: ClassVar[str] = ""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of entities."""

    @abstractmethod
    def __getitem__(self, index: int) -> Entity:
        """Return one entity."""

    @abstractmethod
    def feature_names(self, name: str) -> list[str]:
        """Return a name for each feature column of the knob called ``name``."""

    def __iter__(self) -> Iterator[Entity]:
        return (self[i] for i in range(len(self)))

    @property
    def entities(self) -> Sequence[Entity]:
        """All entities, in index order."""
        return [self[i] for i in range(len(self))]

    def find(self, entity: Entity) -> int | None:
        """Return the index of the entity that has the form of ``entity`` in a log, or None."""
        return self._by_form.get(_form(entity))

    def misfit(self, entity: Entity) -> str:
        """Say why an entity is not among these, in words for the user."""
        few = ", ".join(str(self[i]) for i in range(min(len(self), NAMED)))
        return f"the template offers {few}{', ...' if len(self) > NAMED else ''}"

    @cached_property
    def _by_form(self) -> dict[tuple[str, str], int]:
        # Of two equal values the first counts.
        return {_form(self[i]): i for i in reversed(range(len(self)))}

    @cached_property
    def feature_table(self) -> FloatTable:
        """One row of numeric features for each entity."""
        return self._feature_table()

    def element_codes(self, position: int) -> IntTable:
        """Return, for each entity, an integer that identifies element ``position``."""
        raise NotImplementedError(f"{type(self).__name__} has no elements")

    def _feature_table(self) -> FloatTable:
        return np.array([entity.features() for entity in self], dtype=np.float64)


def _form(entity: Entity) -> tuple[str, str]:
    return entity.tag, json_text(entity.to_json())


def number_or_one_hot(values: Sequence[Any]) -> FloatTable:
    """Return one column of numbers, or a column per value where one is no number."""
    if all(isinstance(value, (bool, int, float)) for value in values):
        return np.array([[float(value)] for value in values], dtype=np.float64)
    return np.eye(len(values), dtype=np.float64)


def float32_features(values: list[Any]) -> npt.NDArray[np.float32]:
    """Return AutoTVM's flat feature vector.

    Raises:
        KnobValueError: a value is not a number; `ConfigSpace.features` encodes those too.
    """
    try:
        return np.array(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise KnobValueError(
            f"a knob's value is not a number ({error}); use ConfigSpace.features, which gives "
            f"such knobs a one-hot code"
        ) from error


def check_policy(policy: object, known: Sequence[str]) -> None:
    """Refuse a policy that is none of the known ones.

    Raises:
        SpaceError: it is not; its text begins as AutoTVM's.
    """
    if not isinstance(policy, str) or policy not in known:
        text = policy if isinstance(policy, str) else shown(policy)
        raise SpaceError(f"Invalid policy: {text}; expected one of {', '.join(known)}")
