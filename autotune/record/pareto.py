"""Records that no other one beats in two objectives at once, such as time and energy."""

from __future__ import annotations

import math
from collections.abc import Iterable

from autotune.measure.objective import ENERGY, TIME, Objective
from autotune.measure.types import Pair


def pareto_front(
    pairs: Iterable[Pair], first: Objective = TIME, second: Objective = ENERGY
) -> list[Pair]:
    """Return the Pareto front of the records of one task, the best by the first objective first.

    A record is in it if none is as good in both objectives and better in one. Of records that are
    equal in both, the earliest is in it; those that do not say both are left out.

    Args:
        pairs: records of one task, measured on one device.
        first, second: what is minimised.

    Example::

        for inp, result in pareto_front(load_from_file("gemm.log")):
            print(inp.config, result.seconds, result.joules)
    """
    costs = [((first.cost(*pair), second.cost(*pair)), pair) for pair in pairs]
    known = [(cost, pair) for cost, pair in costs if max(cost) < math.inf]
    front: list[Pair] = []
    least = math.inf
    for (_, cost), pair in sorted(known, key=lambda one: one[0]):
        if cost < least:
            front.append(pair)
            least = cost
    return front
