"""Compares the best kernels of all functions by their times inside the whole network.

A kernel that is timed alone sees other caches, clocks and memory than between its neighbours. So
the finalists of all functions run in whole networks: program number ``j`` has the ``j``-th
finalist of every function. The programs are timed in turn, step by step. Each function gets the
finalist with the least median, or, of those that noise does not tell apart, the first.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autotune.graph.fuse import FusedFunction
from autotune.network.choice import Choice
from autotune.network.choice_json import choice_hashes, choice_to_json
from autotune.network.compiled import NetworkInstance
from autotune.network.units import Unit
from autotune.target import Target

# Rounds of a race, and the part of a time by which a finalist must be faster than an earlier one.
MOST_ROUNDS, LEAST_ROUNDS, TIE = 15, 4, 0.01


@dataclass(frozen=True)
class FunctionRace:
    """The result of a race for one function.

    Attributes:
        signature: of the function.
        name: of the function.
        winner: how it is computed best.
        seconds: of each finalist in the network, all calls of a run together, medians.
        finalists: these, in order.
        rounds: how often each ran.
    """

    signature: str
    name: str
    winner: Choice
    seconds: tuple[float, ...]
    finalists: tuple[Choice, ...]
    rounds: int

    def note(self, target: Target) -> dict[str, object]:
        """Return the line of the log: the winner, and the proof of the choice."""
        against = zip(self.finalists, self.seconds, strict=True)
        return {
            "function": self.signature,
            "name": self.name,
            "target": str(target),
            "choice": choice_to_json(self.winner),
            "kernel": next(choice_hashes(self.winner, target)),
            "rounds": self.rounds,
            "race": [[each.key, seconds] for each, seconds in against],
        }


def race(
    finalists: Mapping[str, Sequence[Choice]],
    instances: Sequence[NetworkInstance],
    left_s: Callable[[], float],
) -> list[FunctionRace]:
    """Race the finalists of functions, known by their signatures.

    Args:
        finalists: of each function, those that win ties first.
        instances: one for each rank; where a function has fewer finalists its last one is in it.
        left_s: seconds that are left; it takes `LEAST_ROUNDS` whatever that says.
    """
    samples: list[list[Mapping[str, float]]] = [[] for _ in instances]
    for instance in instances:
        instance.run()  # a first run maps memory
    for number in range(MOST_ROUNDS):
        if number >= LEAST_ROUNDS and left_s() <= 0:
            break
        # In turn from another one each time, so that none always follows the same.
        order = [(number + i) % len(instances) for i in range(len(instances))]
        for at in order:
            samples[at].append(seconds_of_functions(instances[at]))
    names = names_of_functions(instances[0])
    return [
        _decide(signature, names.get(signature, ""), field, samples)
        for signature, field in finalists.items()
    ]


def _decide(
    signature: str,
    name: str,
    field: Sequence[Choice],
    samples: Sequence[Sequence[Mapping[str, float]]],
) -> FunctionRace:
    medians = tuple(
        statistics.median(sample.get(signature, 0.0) for sample in samples[rank])
        for rank in range(len(field))
    )
    best = min(medians)
    winner = next(i for i, each in enumerate(medians) if each <= best * (1 + TIE))
    return FunctionRace(signature, name, field[winner], medians, tuple(field), len(samples[0]))


def seconds_of_functions(instance: NetworkInstance) -> dict[str, float]:
    """Run once; return the seconds of each function, all its calls and kernels together."""
    found: dict[str, float] = {}
    times = instance.step_seconds()
    for step, seconds in zip(instance.network.plan.steps, times, strict=True):
        if step.unit is not None:
            key = _owner(step.unit).signature
            found[key] = found.get(key, 0.0) + seconds
    return found


def names_of_functions(instance: NetworkInstance) -> dict[str, str]:
    """Return the name of each function by its signature."""
    units = [step.unit for step in instance.network.plan.steps if step.unit is not None]
    return {_owner(unit).signature: _owner(unit).name for unit in units}


def _owner(unit: Unit) -> FusedFunction:
    """Return the function that a unit is a part of, or is run in the place of."""
    return unit.within or unit.whole
