"""The base of all kinds of knobs: an ordered, finite set of entities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from autotune.errors import SpaceError
from autotune.task.json_form import json_text
from autotune.task.kinds.entity import Entity
from autotune.task.kinds.stand_in import Elements, StandInMaker
from autotune.utils.check import shown

FloatTable = npt.NDArray[np.float64]
IntTable = npt.NDArray[np.int64]

# Values of a knob named in a message.
NAMED = 5


class TransformSpace(Collection[Entity]):
    """The values that one knob can take, in index order: a kind of knob is a subclass of this.

    Creating one must be cheap, as a template creates all of its knobs in each trial; so the values
    are enumerated only on first use, such as by ``len`` when the knob is added to a space. A kind
    defines `kind`, ``__len__``, ``__getitem__`` and `feature_names`; everything else has defaults,
    which it may override by faster methods.

    Attributes:
        kind: the class of the entities.
        num_output: how many axes the knob produces.
        has_elements: whether the value of an entity is a sequence, of one length for all
            entities, whose elements filters look at one by one.
    """

    kind: ClassVar[type[Entity]]
    num_output: int = 0
    has_elements: ClassVar[bool] = False

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of entities.

        Raises:
            SpaceError: the definition is wrong, or leaves no entity.
        """

    @abstractmethod
    def __getitem__(self, index: int) -> Entity:
        """Return one entity."""

    @abstractmethod
    def feature_names(self, name: str) -> list[str]:
        """Return a name for each feature column of the knob called ``name``."""

    def __iter__(self) -> Iterator[Entity]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, entity: object) -> bool:
        return isinstance(entity, Entity) and self.find(entity) is not None

    def is_the_same(self, other: TransformSpace) -> bool:
        """Return whether a second definition surely means what this one does."""
        return other is self

    @property
    def entities(self) -> Sequence[Entity]:
        """All entities, in index order."""
        return list(self)

    # ---- values from elsewhere

    def find(self, entity: Entity) -> int | None:
        """Return the index of the entity that has the form of ``entity`` in a log, or None."""
        return self._by_form.get(_form(entity))

    def misfit(self, entity: Entity) -> str:
        """Return why an entity is not among these, in words for the user."""
        few = ", ".join(str(self[i]) for i in range(min(len(self), NAMED)))
        return f"the template offers {few}{', ...' if len(self) > NAMED else ''}"

    @cached_property
    def _by_form(self) -> dict[tuple[str, str], int]:
        # Of two equal values the first counts.
        return {_form(self[i]): i for i in reversed(range(len(self)))}

    # ---- values made up, where nothing was tuned

    def suits(self, entity: Entity) -> bool:
        """Return whether a template with this knob can work with an entity, offered or not."""
        return isinstance(entity, self.kind)

    def within(self, limits: Sequence[int]) -> Entity:
        """Return the entity of the largest tiles within ``limits``; see `fallback_split`.

        Raises:
            SpaceError: there is no such entity; the knob may have no tiles.
        """
        raise SpaceError(f"{self!r} has no tiles to choose; only a split has, got {limits}")

    def imitation(self, entity: Entity) -> Entity | None:
        """Return the entity most like the choice made for another workload, or None."""
        index = self.find(entity)
        return None if index is None else self[index]

    def likeness(self, entity: Entity) -> float:
        """Return how much a choice made for another workload says about this one, from 0 to 1."""
        return 0.0

    # ---- what filters and models see

    def traced(self, asked: StandInMaker) -> object:
        """Return the stand-in for the knob in a filter that is called once for many entities."""
        return asked.one_of(Elements(len(self), self.__getitem__))

    def element_codes(self, position: int) -> IntTable:
        """Return, for each entity, an integer that identifies element ``position``."""
        raise NotImplementedError(f"{type(self).__name__} has no elements")

    @cached_property
    def feature_table(self) -> FloatTable:
        """One row of numeric features for each entity."""
        return self._feature_table()

    def _feature_table(self) -> FloatTable:
        return np.array([entity.features() for entity in self], dtype=np.float64)


def _form(entity: Entity) -> tuple[str, str]:
    return entity.tag, json_text(entity.to_json())


def check_policy(policy: object, known: Sequence[str]) -> None:
    """Refuse an unknown policy.

    Raises:
        SpaceError: the policy is unknown; the message begins like AutoTVM's.
    """
    if not isinstance(policy, str) or policy not in known:
        text = policy if isinstance(policy, str) else shown(policy)
        raise SpaceError(f"Invalid policy: {text}; expected one of {', '.join(known)}")
