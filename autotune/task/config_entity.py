"""One point of a space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError
from typing import Any, NoReturn, cast

import numpy as np
import numpy.typing as npt

from autotune.errors import SpaceError
from autotune.task.errors import KnobValueError
from autotune.task.kinds import Entity, OtherOptionEntity, entity_from_json
from autotune.task.knobs import entity_of
from autotune.task.template_config import KnobValue
from autotune.utils.check import shown


class ConfigEntity:
    """The choices of one point: frozen, and the `Candidate` of a template's `Task`.

    What a template does with them, such as counting operations or calling the point impossible,
    belongs to its run (`autotune.task.point_run`), and changes nothing here.

    Args:
        index: position in its space; a log's own.
        code_hash: hash of the template's source, or None.
        entity_map: the chosen entity of every knob.
        constraints: errors already known.
        cost: what its record says that it takes, in AutoTVM's sense; None where nothing says.
        space: the space that made it; None for one from elsewhere.

    Attributes:
        template_key: which form of a template a record of version 0.1 is of; else None.

    Two configurations are equal when index, hash and all choices are.
    """

    index: int
    code_hash: str | None
    errors: tuple[str, ...]
    cost: float | None
    space: object | None
    _entity_map: dict[str, Entity]

    is_fallback = False
    template_key: str | None = None

    def __init__(
        self,
        index: int,
        code_hash: str | None,
        entity_map: Mapping[str, Entity],
        constraints: Sequence[str] = (),
        cost: float | None = None,
        space: object | None = None,
    ) -> None:
        own = self.__dict__
        own["index"], own["code_hash"], own["cost"], own["space"] = index, code_hash, cost, space
        own["errors"], own["_entity_map"] = tuple(constraints), dict(entity_map)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(
            f"a configuration is frozen: {name} cannot be set; make another one, or see "
            "with_cost()"
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"a configuration is frozen: {name} cannot be deleted")

    def with_cost(self, cost: float | None) -> ConfigEntity:
        """Return the same point, with what it takes."""
        own = self._entity_map
        made = ConfigEntity(self.index, self.code_hash, own, self.errors, cost, self.space)
        return made.with_template_key(self.template_key)

    def with_template_key(self, template_key: str | None) -> ConfigEntity:
        """Say which form of its template it is of, and return it."""
        if template_key is not None:
            self.__dict__["template_key"] = template_key
        return self

    @property
    def key(self) -> str:
        """Its index, in decimal digits: the name that logs have for a point."""
        return str(int(self.index))

    @property
    def recorded(self) -> Mapping[str, Entity]:
        """The choices."""
        return self._entity_map

    def valid(self) -> bool:
        """Return whether no error was known of it when it was made."""
        return not self.errors

    def get_flatten_feature(self) -> npt.NDArray[np.float32]:
        """Return AutoTVM's flat feature vector: sizes, permutations, one-hot annotations, values.

        Raises:
            KnobValueError: a knob's value is not a number.
        """
        entities = self._entity_map.values()
        values = [value for entity in entities for value in entity.features()]
        try:
            return np.array(values, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise KnobValueError(
                f"a knob's value is not a number ({error}); use ConfigSpace.features, which gives "
                f"such knobs a one-hot code"
            ) from error

    def get_other_option(self) -> dict[OtherOptionEntity, object]:
        """Return the values of the knobs made by `define_knob`."""
        entities = self._entity_map.values()
        return {e: e.val for e in entities if isinstance(e, OtherOptionEntity)}

    def to_json_dict(self) -> dict[str, Any]:
        """Return the JSON form used in logs."""
        entity = [[name, e.tag, e.to_json()] for name, e in self._entity_map.items()]
        return {"index": int(self.index), "code_hash": self.code_hash, "entity": entity}

    def to_json(self) -> dict[str, object]:
        """Return the JSON form used in logs."""
        return self.to_json_dict()

    @staticmethod
    def from_json_dict(json_dict: Mapping[str, Any]) -> ConfigEntity:
        """Read the JSON form used in logs.

        Raises:
            SpaceError: a knob has an unknown type or an impossible value.
        """
        entities = {
            name: entity_from_json(name, tag, value) for name, tag, value in json_dict["entity"]
        }
        return ConfigEntity(json_dict["index"], json_dict["code_hash"], entities)

    @staticmethod
    def of(candidate: object) -> ConfigEntity:
        """Return a candidate as a point of a space.

        Raises:
            SpaceError: the candidate is not a point of a space.
        """
        if isinstance(candidate, ConfigEntity):
            return candidate
        raise SpaceError(
            f"expected a point of a template's space, such as task.default(), got "
            f"{shown(candidate)}"
        )

    def __getstate__(self) -> dict[str, object]:
        # A space may hold functions of the template, which no other process has.
        return {**self.__dict__, "space": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)

    def __getitem__(self, name: str) -> KnobValue:
        return cast(KnobValue, entity_of(self._entity_map, name))

    def __contains__(self, name: object) -> bool:
        return name in self._entity_map

    def __iter__(self) -> Iterator[str]:
        return iter(self._entity_map)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigEntity) and (
            (self.index, self.code_hash, self._entity_map)
            == (other.index, other.code_hash, other._entity_map)
        )

    def __hash__(self) -> int:
        return hash((self.index, self.code_hash, frozenset(self._entity_map.items())))

    def __repr__(self) -> str:
        return f"{list(self._entity_map.items())},{self.code_hash},{self.index}"
