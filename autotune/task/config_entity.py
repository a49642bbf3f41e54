"""One point of a space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import SpaceError
from autotune.task.axes import Axis
from autotune.task.constraint import Predicate
from autotune.task.entities import Entity, OtherOptionEntity, entity_from_json
from autotune.task.knobs import BuildSpace, Knobs, Misfit, build_space
from autotune.task.membership import lacking, position
from autotune.task.transform_space import TransformSpace, float32_features
from autotune.utils.check import shown


class ConfigEntity(Knobs):
    """The choices of one point.

    Those made by a space are its own. Any others, such as those of a log, are looked up in what
    the template offers (see `autotune.task.replayed`): it gets its own value or an error, never a
    value that it did not offer.

    Args:
        index: position in its space; a log's own.
        code_hash: hash of the template's source, or None.
        entity_map: the chosen entity of every knob.
        constraints: errors already known.
        cost: what its record says that it takes, in AutoTVM's sense; None where nothing says.

    Attributes:
        space: the space that made it; None for one from elsewhere.

    Two configurations are equal when index, hash and all choices are.
    """

    def __init__(
        self,
        index: int,
        code_hash: str | None,
        entity_map: Mapping[str, Entity],
        constraints: Sequence[str] = (),
        cost: float | None = None,
    ) -> None:
        super().__init__()
        self.index = index
        self.code_hash = code_hash
        self.cost = cost
        self.errors = list(constraints)
        self.space: object | None = None
        self._entity_map = dict(entity_map)
        # What a template that defined a knob found for it among what it offers.
        self._found: dict[str, Entity] = {}

    def _entities(self) -> dict[str, Entity]:
        return {**self._entity_map, **self._found}

    def _define(self, name: str, num_output: int, build: BuildSpace, misfit: Misfit) -> list[Axis]:
        if name not in self._entity_map:
            raise lacking(self.index, name, self._entity_map)
        if self.space is None:
            self._found[name] = self._own(name, build_space(name, build))
        return [Axis(None, i) for i in range(num_output)]

    def multi_filter(self, filter: Predicate) -> None:
        """Do nothing: the point was chosen already."""

    def _own(self, name: str, offered: TransformSpace) -> Entity:
        """Return the value of a knob that is offered, for the one that was recorded."""
        return offered[position(self.index, name, self._entity_map[name], offered)]

    @property
    def key(self) -> str:
        """Its index, in decimal digits: the name that logs have for a point."""
        return str(int(self.index))

    def to_json(self) -> dict[str, Any]:
        """Return the form that stands in logs."""
        return self.to_json_dict()

    @staticmethod
    def of(candidate: object) -> ConfigEntity:
        """Return what was tried as a point of a space.

        Raises:
            SpaceError: it is none.
        """
        if isinstance(candidate, ConfigEntity):
            return candidate
        raise SpaceError(
            f"expected a point of a template's space, such as task.config_space.get(0), got "
            f"{shown(candidate)}"
        )

    @property
    def recorded(self) -> Mapping[str, Entity]:
        """The choices as they were given, before they were looked up."""
        return self._entity_map

    def adopt(self, run: ConfigEntity) -> None:
        """Take over what a template's run with these choices found and said."""
        self.flop, self.bytes, self.errors = run.flop, run.bytes, run.errors
        self._found = run._found

    def begin(self) -> None:
        """Forget what the last run of a template left: errors and operation counts."""
        self.flop, self.bytes = 0, 0
        self.errors = []
        self._found = {}

    def get_flatten_feature(self) -> npt.NDArray[np.float32]:
        """Return AutoTVM's flat feature vector: sizes, permutations, one-hot annotations, values.

        Raises:
            KnobValueError: a knob's value is not a number.
        """
        entities = self._entities().values()
        return float32_features([value for entity in entities for value in entity.features()])

    def get_other_option(self) -> dict[OtherOptionEntity, Any]:
        """Return the values of the knobs made by `define_knob`."""
        entities = self._entities().values()
        return {e: e.val for e in entities if isinstance(e, OtherOptionEntity)}

    def to_json_dict(self) -> dict[str, Any]:
        """Return the form that stands in logs."""
        entity = [[name, e.tag, e.to_json()] for name, e in self._entity_map.items()]
        return {"index": int(self.index), "code_hash": self.code_hash, "entity": entity}

    @staticmethod
    def from_json_dict(json_dict: Mapping[str, Any]) -> ConfigEntity:
        """Read the form that stands in logs.

        Raises:
            SpaceError: a knob has an unknown type or an impossible value.
        """
        entities = {
            name: entity_from_json(name, tag, value) for name, tag, value in json_dict["entity"]
        }
        return ConfigEntity(json_dict["index"], json_dict["code_hash"], entities)

    def __getstate__(self) -> dict[str, Any]:
        # A space may hold functions of the template, which no other process has.
        return {**self.__dict__, "space": None}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigEntity) and (
            (self.index, self.code_hash, self._entity_map)
            == (other.index, other.code_hash, other._entity_map)
        )

    def __hash__(self) -> int:
        return hash((self.index, self.code_hash, frozenset(self._entity_map.items())))

    def __repr__(self) -> str:
        return f"{list(self._entity_map.items())},{self.code_hash},{self.index}"
