"""Fallback configurations, for workloads that were never tuned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeGuard

from autotune.errors import SpaceError
from autotune.task.axes import Axis
from autotune.task.constraints.constraint import Predicate
from autotune.task.errors import KnobLookupError
from autotune.task.kinds import Entity, OtherOptionEntity, TransformSpace
from autotune.task.knobs import Knobs, check_knob
from autotune.utils.check import Check


class ChosenOption(OtherOptionEntity):
    """The value of a knob of an untuned configuration, which a template may set.

    Schedules of TVM write ``cfg["unroll_explicit"].val = 0`` where nothing was tuned.
    """

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if type(other) is OtherOptionEntity:
            return OtherOptionEntity(self.val) == other
        return super().__eq__(other)

    __hash__ = OtherOptionEntity.__hash__


class FallbackConfigEntity(Knobs):
    """The first entity of every knob, unless the template sets another.

    A knob that was set before it is defined keeps its value. A template that neither asks
    `is_fallback` nor sets a knob leaves the choice to an estimate, where there is one, else to its
    filters: the first point that they accept.

    Attributes:
        decided: whether the values are those of the template, or were chosen already.
        has_constraints: whether the template has filters.
    """

    def __init__(self) -> None:
        super().__init__()
        self.decided = False
        self.has_constraints = False
        self.space_map: dict[str, TransformSpace] = {}
        self._entity_map: dict[str, Entity] = {}

    @property
    def is_fallback(self) -> bool:  # type: ignore[override]
        """True; who asks chooses the values."""
        self.decided = True
        return True

    def decide(self, choices: Mapping[str, Entity]) -> None:
        """Take these values from now on."""
        self.decided = True
        self._entity_map.update(choices)

    def _entities(self) -> dict[str, Entity]:
        return self._entity_map

    def define(self, name: str, knob: TransformSpace) -> list[Axis]:
        """Choose the first value of a knob unless a fitting one was set, and return its axes.

        Raises:
            SpaceError: the knob has no values or wrong ones.
        """
        if name in self._entity_map and knob.suits(self._entity_map[name]):
            return [Axis(knob, i) for i in range(knob.num_output)]
        self.space_map[name] = check_knob(name, knob)
        first = knob[0]
        if isinstance(first, OtherOptionEntity):
            first = ChosenOption(first.val)
        self._entity_map[name] = first
        return [Axis(knob, i) for i in range(knob.num_output)]

    def multi_filter(self, filter: Predicate) -> None:
        """Note that there is one: the values that it accepts are chosen from the space."""
        self.has_constraints = True

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Choose tiles by their largest sizes.

        Sizes are filled from the innermost outwards, each with the largest factor of the remainder
        that is not above its limit.

        Args:
            name: a knob made by `define_split`.
            constraints: largest size of each loop, -1 for no limit.

        Raises:
            SpaceError: there is no such knob, or no factor is small enough.
        """
        if name not in self.space_map:
            raise KnobLookupError(
                f"there is no knob {name!r} to choose tiles for; "
                f"defined so far: {', '.join(self.space_map) or 'none'}"
            )
        try:
            self.decide({name: self.space_map[name].within(constraints)})
        except SpaceError as error:
            raise SpaceError(
                f"Cannot find feasible fallback split entity for node: {name}; {error}"
            ) from error

    def fallback_with_reference_log(self, ref_log: Iterable[tuple[object, object]]) -> None:
        """Imitate the record whose split factors are most like those of this workload.

        Args:
            ref_log: pairs of `MeasureInput` and `MeasureResult` of the same template. Those with
                values that this template does not offer are passed over.

        Raises:
            SpaceError: it holds something else.
        """
        best: dict[str, Entity] = {}
        most = -1.0
        for config in _configs_of(ref_log):
            likeness = self._likeness(config)
            imitated = self._imitation(config) if likeness > most else None
            if imitated is not None:
                best, most = imitated, likeness
        self.decide(best)

    def __setitem__(self, name: str, entity: Entity) -> None:
        self.decide({name: entity})

    def __repr__(self) -> str:
        return f"{list(self._entity_map.items())},{self.code_hash}"

    def _imitation(self, config: _Choices) -> dict[str, Entity] | None:
        """Return what is most like a configuration; None where a knob offers nothing like it."""
        found = {}
        for name, knob in self.space_map.items():
            entity = knob.imitation(config[name]) if name in config else None
            if entity is None:
                return None
            found[name] = entity
        return found

    def _likeness(self, config: _Choices) -> float:
        """Return how much of a configuration is also one of this workload."""
        knobs = self.space_map.items()
        return sum((knob.likeness(config[name]) for name, knob in knobs if name in config), 0.0)


class _Choices(Protocol):
    """A configuration, as far as it is imitated."""

    def __contains__(self, name: object) -> bool: ...

    def __getitem__(self, name: str) -> Entity: ...


def _configs_of(ref_log: object) -> list[_Choices]:
    """Return the configurations of records.

    Raises:
        SpaceError: these are no records.
    """
    check = Check(SpaceError, "fallback_with_reference_log")
    expected = "pairs of MeasureInput and MeasureResult, such as load_from_file gives"
    if not isinstance(ref_log, Iterable):
        check.refuse("ref_log", expected, ref_log)
    configs = []
    for pair in ref_log:
        config = getattr(pair[0], "config", None) if isinstance(pair, tuple | list) and pair else 0
        if not _has_choices(config):
            check.refuse("ref_log", expected, pair)
        configs.append(config)
    return configs


def _has_choices(config: object) -> TypeGuard[_Choices]:
    return hasattr(config, "__getitem__") and hasattr(config, "__contains__")
