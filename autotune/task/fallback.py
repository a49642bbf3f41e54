"""Made-up choices, for workloads that were never tuned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from autotune.errors import SpaceError
from autotune.task.axes import Axis
from autotune.task.constraint import Predicate
from autotune.task.entities import Entity, SplitEntity
from autotune.task.errors import KnobLookupError
from autotune.task.knobs import BuildSpace, Knobs, Misfit, build_space
from autotune.task.split_space import SplitSpace
from autotune.task.transform_space import TransformSpace
from autotune.utils.check import Check
from autotune.utils.math import divisors, product

UNLIMITED = 1 << 62


class FallbackConfigEntity(Knobs):
    """The first entity of every knob, unless the template sets another.

    A knob that was set before it is defined keeps its value.
    """

    is_fallback = True

    def __init__(self) -> None:
        super().__init__()
        self.space_map: dict[str, TransformSpace] = {}
        self._entity_map: dict[str, Entity] = {}

    def _entities(self) -> dict[str, Entity]:
        return self._entity_map

    def _define(self, name: str, num_output: int, build: BuildSpace, misfit: Misfit) -> list[Axis]:
        if name in self._entity_map and not misfit(self._entity_map[name]):
            return [Axis(None, i) for i in range(num_output)]
        space = build_space(name, build)
        self.space_map[name] = space
        self._entity_map[name] = space[0]
        return [Axis(space, i) for i in range(space.num_output)]

    def multi_filter(self, filter: Predicate) -> None:
        """Do nothing: a fallback chooses no point by search."""

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Choose tiles by their largest sizes.

        Sizes are filled from the innermost outwards, each with the largest factor of what is left
        that is not above its limit.

        Args:
            name: a knob made by `define_split`.
            constraints: largest size of each loop, -1 for no limit.

        Raises:
            SpaceError: there is no such knob, or no factor is small enough.
        """
        space = self._split_space(name)
        if len(constraints) != space.num_output:
            raise SpaceError(
                f"knob {name!r}: expected {space.num_output} constraints, got {list(constraints)}"
            )
        left, size = space.product, [0] * space.num_output
        for position in reversed(range(space.num_output)):
            limit = UNLIMITED if constraints[position] == -1 else constraints[position]
            fitting = [factor for factor in divisors(left) if factor <= limit]
            if not fitting:
                raise SpaceError(
                    f"Cannot find feasible fallback split entity for node: {name}; "
                    f"constraint {limit} is below 1"
                )
            size[position] = fitting[-1]
            left //= fitting[-1]
        self._entity_map[name] = SplitEntity(size)

    def fallback_with_reference_log(self, ref_log: Iterable[tuple[Any, Any]]) -> None:
        """Imitate the record whose split factors are most like those of this workload.

        Args:
            ref_log: pairs of `MeasureInput` and `MeasureResult` of the same template. Those with
                values that this template does not offer are passed over.

        Raises:
            SpaceError: it holds something else.
        """
        configs = _configs_of(ref_log)
        splits = [name for name, space in self.space_map.items() if isinstance(space, SplitSpace)]
        usable = [config for config in configs if _has(config, self.space_map)]
        if not usable:
            return
        best = max(usable, key=lambda config: self._likeness(config, splits))
        for name in splits:
            self.fallback_split(name, [-1, *best[name].size[1:]])
        for name, space in self.space_map.items():
            if name not in splits:
                self._entity_map[name] = _offered(space, best[name])

    def __setitem__(self, name: str, entity: Entity) -> None:
        self._entity_map[name] = entity

    def __repr__(self) -> str:
        return f"{list(self._entity_map.items())},{self.code_hash}"

    def _split_space(self, name: str) -> SplitSpace:
        if name not in self.space_map:
            raise KnobLookupError(
                f"there is no knob {name!r} to choose tiles for; "
                f"defined so far: {', '.join(self.space_map) or 'none'}"
            )
        space = self.space_map[name]
        if not isinstance(space, SplitSpace):
            raise SpaceError(f"knob {name!r} is {space!r}; only a split has tiles to choose")
        return space

    def _likeness(self, config: Any, splits: Sequence[str]) -> float:
        """Add up, over the splits, the share of our factors that the reference has too."""
        total = 0.0
        for name in splits:
            reference = product(n for n in config[name].size if n != -1)
            own = divisors(self._split_space(name).product)
            total += sum(reference % factor == 0 for factor in own) / len(own)
        return total


def _configs_of(ref_log: Any) -> list[Any]:
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
        if not hasattr(config, "__getitem__") or not hasattr(config, "__contains__"):
            check.refuse("ref_log", expected, pair)
        configs.append(config)
    return configs


def _has(config: Any, space_map: dict[str, TransformSpace]) -> bool:
    """Return whether a configuration has a value for every knob: one of its own, or tiles."""
    for name, space in space_map.items():
        if name not in config:
            return False
        if isinstance(space, SplitSpace):
            sizes = getattr(config[name], "size", ())
            if len(sizes) != space.num_output or any(n < 1 for n in sizes[1:]):
                return False
        elif space.find(config[name]) is None:
            return False
    return True


def _offered(space: TransformSpace, entity: Entity) -> Entity:
    digit = space.find(entity)
    assert digit is not None
    return space[digit]
