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
from autotune.task.knobs import BuildSpace, Knobs, Misfit
from autotune.task.transform_space import float32_features


class ConfigEntity(Knobs):
    """The choices of one point; definitions only check that the choices fit them.

    Args:
        index: position in its space; a log's own.
        code_hash: hash of the template's source, or None.
        entity_map: the chosen entity of every knob.
        constraints: errors already known.

    Two configurations are equal when index, hash and all choices are.
    """

    def __init__(
        self,
        index: int,
        code_hash: str | None,
        entity_map: Mapping[str, Entity],
        constraints: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.index = index
        self.code_hash = code_hash
        self.cost: float | None = None
        self.errors = list(constraints)
        self._entity_map = dict(entity_map)
        self._defined: set[str] = set()

    def _entities(self) -> dict[str, Entity]:
        return self._entity_map

    def _define(self, name: str, num_output: int, build: BuildSpace, misfit: Misfit) -> list[Axis]:
        if name not in self._entity_map:
            raise SpaceError(
                f"configuration {self.index} lacks the knob {name!r} that the template defines; "
                f"it has {', '.join(self._entity_map) or 'none'}. It was made for another version "
                f"of the template: tune again"
            )
        entity = self._entity_map[name]
        why = misfit(entity)
        if why:
            raise SpaceError(
                f"configuration {self.index}: knob {name!r} = {entity} does not fit: {why}. "
                f"It was made for another workload or another version of the template"
            )
        self._defined.add(name)
        return [Axis(None, i) for i in range(num_output)]

    def multi_filter(self, filter: Predicate) -> None:
        """Do nothing: the point was chosen already."""

    def begin(self) -> None:
        """Forget what the last run of a template left: errors, operation counts, definitions."""
        self.flop, self.bytes = 0, 0
        self.errors = []
        self._defined = set()

    @property
    def undefined(self) -> list[str]:
        """Knobs that no template has defined since `begin`."""
        return [name for name in self._entity_map if name not in self._defined]

    def get_flatten_feature(self) -> npt.NDArray[np.float32]:
        """Return AutoTVM's flat feature vector: sizes, permutations, one-hot annotations, values.

        Raises:
            KnobValueError: a knob's value is not a number.
        """
        entities = self._entity_map.values()
        return float32_features([value for entity in entities for value in entity.features()])

    def get_other_option(self) -> dict[OtherOptionEntity, Any]:
        """Return the values of the knobs made by `define_knob`."""
        entities = self._entity_map.values()
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigEntity) and (
            (self.index, self.code_hash, self._entity_map)
            == (other.index, other.code_hash, other._entity_map)
        )

    def __hash__(self) -> int:
        return hash((self.index, self.code_hash, frozenset(self._entity_map.items())))

    def __repr__(self) -> str:
        return f"{list(self._entity_map.items())},{self.code_hash},{self.index}"
