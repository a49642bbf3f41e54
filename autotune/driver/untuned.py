"""The configuration of a te template that was never tuned: the best of some, by an estimate.

A template that chooses values itself (`cfg.is_fallback`) keeps them, as in AutoTVM. Of any other
for a GPU some points are drawn, those that it suggests first, and the estimate of the time of
their loops (`features.gpu_time`) ranks them; the best are changed knob by knob. Nothing is built.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import AutotuneError
from autotune.features import estimated_seconds
from autotune.lowering import lower_schedule
from autotune.target import Target
from autotune.task.config_entity import ConfigEntity
from autotune.task.config_space import ConfigSpace
from autotune.task.kinds import Entity, SplitEntity, SplitSpace, TransformSpace
from autotune.te import Schedule
from autotune.utils.garbage import collection_paused

# Points that are estimated, of which so many are drawn before any is changed; one takes some 4 ms.
_ESTIMATES, _DRAWN = 40, 8
# The best, which are changed.
_PARENTS = 2
# How many of the best are lowered until one can be.
_LOWERED = 16

Realise = Callable[[ConfigEntity], Any]
Digits = tuple[int, ...]


def best_untuned(
    space: ConfigSpace, realise: Realise, made: object, target: Target
) -> ConfigEntity | None:
    """Return the point of a template that is estimated to be the fastest.

    Equal spaces and devices give equal points.

    Args:
        space: the knobs of the template.
        realise: runs the template with a point; raises where that is impossible.
        made: what the template returned with the first value of each knob.
        target: a device.

    Returns:
        The point; None if nothing can be estimated: the template has no schedule of fixed
        extents, or is for a CPU.
    """
    schedule = made[0] if isinstance(made, (tuple, list)) and made else made
    if not isinstance(schedule, Schedule) or not target.backend.on_gpu or not space.dims:
        return None
    with collection_paused():
        return _Search(space, realise, target).run()


class _Search:
    """One search."""

    def __init__(self, space: ConfigSpace, realise: Realise, target: Target) -> None:
        self.space, self.realise, self.target = space, realise, target
        self.rng = np.random.default_rng(0)
        self.knobs = [*space.space_map.values()]
        self.seconds: dict[Digits, float] = {}
        self.points: dict[Digits, ConfigEntity] = {}

    def run(self) -> ConfigEntity | None:
        """Return the best that can be lowered."""
        for suggestion in self.space.suggestions:
            if suggestion.keys() >= self.space.space_map.keys():
                pairs = self.space.space_map.items()
                self._estimate(tuple([_nearest(knob, suggestion[name]) for name, knob in pairs]))
        self._estimate((0,) * len(self.knobs))
        self._repeat(self._drawn, _DRAWN)
        self._repeat(self._changed, _ESTIMATES)
        for digits in self._ranked()[:_LOWERED]:
            if self._can_be_lowered(self.points[digits]):
                return self.points[digits]
        return None

    def _repeat(self, propose: Callable[[], Digits], until: int) -> None:
        """Estimate what is proposed until so many were; small spaces have fewer."""
        for _ in range(4 * until):
            if len(self.seconds) >= until:
                return
            self._estimate(propose())

    def _estimate(self, digits: Digits) -> None:
        if digits in self.points:
            return
        point = self.space.point(digits)
        if point is None:
            return
        self.points[digits] = point
        self.seconds[digits] = self._seconds(point)

    def _seconds(self, point: ConfigEntity) -> float:
        try:
            schedule, args = self.realise(point)
            return estimated_seconds(schedule, args, self.target.limits)
        except AutotuneError:
            return math.inf

    def _can_be_lowered(self, point: ConfigEntity) -> bool:
        try:
            schedule, args = self.realise(point)
            language = self.target.backend.language
            lower_schedule(schedule, args, target_kind=language, limits=self.target.limits)
        except AutotuneError:
            return False
        return True

    def _ranked(self) -> list[Digits]:
        """Return the points that fit the device, fastest first."""
        fitting = [digits for digits, seconds in self.seconds.items() if seconds < math.inf]
        return sorted(fitting, key=lambda digits: self.seconds[digits])

    def _drawn(self) -> Digits:
        return tuple([int(self.rng.integers(len(knob))) for knob in self.knobs])

    def _changed(self) -> Digits:
        """Return one of the best with other values of one knob or two."""
        best = self._ranked()[:_PARENTS]
        if not best:
            return self._drawn()
        digits = list(best[int(self.rng.integers(len(best)))])
        several = [i for i, knob in enumerate(self.knobs) if len(knob) > 1]
        count = min(len(several), 1 + int(self.rng.integers(2)))
        for place in self.rng.choice(several, count, replace=False) if several else ():
            digits[place] = self._other(self.knobs[place], digits[place])
        return tuple(digits)

    def _other(self, knob: TransformSpace, digit: int) -> int:
        """Return another value of a knob; of splits rather one of similar sizes."""
        if not isinstance(knob, SplitSpace):
            return int((digit + 1 + self.rng.integers(len(knob) - 1)) % len(knob))
        near = np.exp(-_apart(knob, knob[digit].size))
        near[digit] = 0.0
        return int(self.rng.choice(len(knob), p=near / near.sum()))


def _nearest(knob: TransformSpace, value: Entity) -> int:
    """Return the digit of a value; of a split that is not offered, of the most similar one."""
    found = knob.find(value)
    if found is None and isinstance(knob, SplitSpace) and isinstance(value, SplitEntity):
        found = int(_apart(knob, value.size).argmin())
    return found or 0


def _apart(knob: SplitSpace, size: Sequence[int]) -> npt.NDArray[np.float64]:
    """Return how much the inner sizes of each split differ from some, in powers of two."""
    apart = np.zeros(len(knob))
    for i in range(1, knob.num_output):
        apart += np.abs(np.log2(knob.element_codes(i) / size[i]))
    return apart
