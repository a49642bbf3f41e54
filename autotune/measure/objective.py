"""What tuning minimises: a function from a record to a positive number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from autotune.errors import AutotuneError, MeasureError
from autotune.measure.evidence import Energy
from autotune.measure.interfaces import Runner
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.utils.check import Check

Cost = Callable[[MeasureInput, MeasureResult], float]

# Strategies see costs in millionths of their unit, or the product of a little energy and a short
# time would be taken for no time at all.
_MICRO = 1e6


@dataclass(frozen=True)
class Objective:
    """What is minimised.

    Attributes:
        name: in messages.
        function: from a record of a trial that succeeded to what is minimised; a positive number,
            infinite or NaN where the record does not say.
        energy: whether it takes records with energy.

    Raises:
        MeasureError: the name is empty, or the function is none.

    Example::

        def joules_and_time(inp, result):
            return result.joules ** 0.7 * result.seconds ** 0.3

        tuner.tune(200, option, objective=Objective("mixed", joules_and_time, energy=True))
    """

    name: str
    function: Cost
    energy: bool = False

    def __post_init__(self) -> None:
        check = Check(MeasureError, "Objective")
        check.text("name", self.name, such_as="joules and time")
        check.function("function", self.function, of="an input and a result")
        check.flag("energy", self.energy)

    def cost(self, inp: MeasureInput, result: MeasureResult) -> float:
        """Return what is minimised; infinite for a trial that failed, or where it is unknown.

        Raises:
            MeasureError: the function fails, or returns no number.
        """
        if not result.ok or not result.costs or (self.energy and result.joules is None):
            return math.inf
        try:
            value = float(self.function(inp, result))
        except Exception as error:
            raise MeasureError(
                f"objective {self.name!r}: its function raised {type(error).__name__}: {error}; "
                "it takes a MeasureInput and a MeasureResult, and returns a positive number"
            ) from error
        return value if value > 0 else math.inf  # NaN is not

    def knows(self, inp: MeasureInput, result: MeasureResult) -> bool:
        """Return whether a record can be the best."""
        if self is TIME:
            return result.ok and bool(result.costs)
        return self.cost(inp, result) < math.inf

    def as_minimised(self, pair: Pair) -> Pair:
        """Return a trial as a strategy sees it: its costs are what is minimised.

        Where energy was not measured because another kernel takes less, it is seen at its bound.
        """
        inp, result = pair
        if self is TIME or not result.ok:
            return pair
        value = self.cost(inp, _at_bound(result)) * _MICRO
        # They are of the time.
        evidence = replace(result.evidence, ci95=None, noise_floor=None)
        return inp, result._replace(costs=(value,), evidence=evidence)

    def check_option(self, measure_option: object) -> None:
        """Refuse a runner whose results lack what is minimised.

        Args:
            measure_option: has the runner.

        Raises:
            MeasureError: energy is part of the objective, and the runner does not measure it.
        """
        runner = measure_option.get("runner") if isinstance(measure_option, Mapping) else None
        if self.energy and isinstance(runner, Runner) and not runner.energy:
            raise MeasureError(
                f"objective {self.name!r}: the runner does not measure energy; use "
                "LocalRunner(energy=True) or, in a runner of your own, set energy = True and "
                'return extra={"energy": {"joules": ...}}'
            )


def _at_bound(result: MeasureResult) -> MeasureResult:
    energy = result.evidence.energy
    if energy is None or energy.joules is not None or energy.at_least is None:
        return result
    known = Energy(joules=energy.at_least)
    return result._replace(evidence=replace(result.evidence, energy=known))


def _seconds(_: MeasureInput, result: MeasureResult) -> float:
    return result.seconds


def _joules(_: MeasureInput, result: MeasureResult) -> float:
    return math.inf if result.joules is None else result.joules


def _product(inp: MeasureInput, result: MeasureResult) -> float:
    return _joules(inp, result) * result.seconds


TIME = Objective("time", _seconds)
ENERGY = Objective("energy", _joules, energy=True)
# The energy-delay product weighs both alike (Gonzalez and Horowitz, 1996).
EDP = Objective("edp", _product, energy=True)

OBJECTIVES = {each.name: each for each in (TIME, ENERGY, EDP)}


def objective_of(owner: str, given: object, error: type[AutotuneError]) -> Objective:
    """Return an objective, which may be given by its name.

    Raises:
        error: there is no such objective.
    """
    if isinstance(given, Objective):
        return given
    return OBJECTIVES[Check(error, owner).one_of("objective", given, OBJECTIVES)]
