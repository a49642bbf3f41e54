"""One run of a template with a point of its space: its configuration, and what it declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, cast

from autotune.errors import SpaceError
from autotune.task.axes import Axis
from autotune.task.config_entity import ConfigEntity
from autotune.task.constraints.constraint import Predicate
from autotune.task.kinds import Entity, OtherOptionSpace, TransformSpace
from autotune.task.knobs import Knobs, check_knob
from autotune.task.membership import check_filters, check_index, lacking, position, unknown
from autotune.utils.check import shown

if TYPE_CHECKING:
    from autotune.task.config_space import ConfigSpace


class PointRun(Knobs):
    """The configuration of a template that runs with a point; the point stays unchanged.

    Choices that a space made are its own. Any others, such as those of a log, are looked up in
    what the template offers: it gets its own value or an error, never one that it did not offer.

    Args:
        point: the choices.
    """

    def __init__(self, point: ConfigEntity) -> None:
        super().__init__()
        self.point = point
        self.code_hash = point.code_hash
        # What a template that defined a knob found for it among what it offers.
        self._found: dict[str, Entity] = {}

    @property
    def index(self) -> int:
        """Position of the point in its space."""
        return self.point.index

    @property
    def cost(self) -> float | None:
        """The time of the point, according to its record."""
        return self.point.cost

    def _entities(self) -> Mapping[str, Entity]:
        return {**self.point.recorded, **self._found} if self._found else self.point.recorded

    def define(self, name: str, knob: TransformSpace) -> list[Axis]:
        """Look up what was chosen for a knob, and return its output axes.

        Raises:
            SpaceError: nothing was chosen for it, or nothing that it offers; or a list of values
                is not the one that the space has.
        """
        if name not in self.point.recorded:
            raise lacking(self.point.index, name, self.point.recorded)
        space = cast("ConfigSpace | None", self.point.space)
        if space is None:
            self._found[name] = self._own(name, check_knob(name, knob))
        elif isinstance(knob, OtherOptionSpace) and name in space.space_map:
            _check_fixed(name, knob, space.space_map[name])
        return [Axis(knob, i) for i in range(knob.num_output)]

    def multi_filter(self, filter: Predicate) -> None:
        """Do nothing: the point was chosen already."""

    def _own(self, name: str, offered: TransformSpace) -> Entity:
        """Return the value of a knob that is offered, for the one that was recorded."""
        return offered[position(self.point.index, name, self.point.recorded[name], offered)]

    def to_json_dict(self) -> dict[str, object]:
        """Return the JSON form of the point."""
        return self.point.to_json_dict()

    def __repr__(self) -> str:
        return repr(self.point)


def _check_fixed(name: str, knob: OtherOptionSpace, known: TransformSpace) -> None:
    """Check that a list of values is the one of the space: a log tells points by their places.

    Raises:
        SpaceError: it is another, as where it depends on the value of a knob.
    """
    if not known.is_the_same(knob):
        raise SpaceError(
            f"knob {name!r}: offer the same values in every run, and reject combinations with "
            f"cfg.multi_filter; got {shown(knob.entities)} here, {shown(known.entities)} when the "
            "space was collected"
        )


class ReplayedRun(PointRun):
    """A run with a configuration from elsewhere, such as a log.

    Each knob that the template defines is looked up in what it offers, and has the template's own
    value from then on; before, it has none. So a template may ask whether a log knows a knob, and
    define others then, but it sees no value that it did not offer.
    """

    def __init__(self, point: ConfigEntity) -> None:
        # Choices of another space are strangers here.
        recorded = point.recorded
        super().__init__(ConfigEntity(point.index, point.code_hash, recorded, cost=point.cost))
        self._offers: dict[str, TransformSpace] = {}
        self._filters: list[Predicate] = []

    def _entities(self) -> dict[str, Entity]:
        return self._found

    def _own(self, name: str, offered: TransformSpace) -> Entity:
        self._offers[name] = offered
        return super()._own(name, offered)

    def multi_filter(self, filter: Predicate) -> None:
        """Keep a filter for `check`."""
        self._filters.append(filter)

    def check(self, collected: Callable[[], ConfigSpace]) -> None:
        """Check that this is a point of the space that the template spanned; call it at the end.

        Args:
            collected: gives the space of the template; asked only when there are knobs that were
                not defined, which a template with conditional knobs may leave out.

        Raises:
            SpaceError: it is not.
        """
        entities = dict(self._found)
        for name in self.point.recorded:
            if name not in entities:
                others = collected().space_map
                if name not in others:
                    raise unknown(self.point.index, name, others)
                entities[name] = self._own(name, others[name])
        check_index(self.point.index, prod(map(len, self._offers.values())))
        check_filters(self.point.index, entities, self._filters)

    def __contains__(self, name: object) -> bool:
        return name in self.point.recorded

    def __iter__(self) -> Iterator[str]:
        return iter(self.point.recorded)
