"""Compares finalists of functions by the time of the whole network.

On a GPU the times of kernels do not add up to the time of their graph: a kernel starts while the
previous one ends, and with the caches as that one leaves them. So, function by function, the
network with another finalist and the present one are timed in turn, and the faster is kept.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autotune.network.choice import Choice
from autotune.network.compiled import NetworkInstance
from autotune.network.tuning.program_race import FunctionRace
from autotune.runtime.timing import Sampler

# Samples of each of two networks, and the fewest after which one is given up; the seconds that
# a sample lasts; the parts of the time that a change must gain, and by which one is hopeless.
_SAMPLES, _FEWEST, _SAMPLE_S, _GAIN, _HOPELESS = 9, 3, 2e-3, 0.001, 0.005
_MOST_RUNS, _MOST_SWEEPS = 50, 3
# Finalists are compared that alone took at most so much longer than the fastest.
_NEAR = 1.2


@dataclass(frozen=True)
class Compared:
    """A network with another kernel of one function against the network as it was.

    Attributes:
        signature: of the function.
        key: of the kernel that was tried.
        seconds: of whole runs with it, a median.
        against_s: of those without it.
    """

    signature: str
    key: str
    seconds: float
    against_s: float


def race_whole(
    raced: Sequence[FunctionRace],
    instance_of: Callable[[Mapping[str, Choice]], NetworkInstance],
    left_s: Callable[[], float],
) -> tuple[dict[str, Choice], list[Compared]]:
    """Return the finalists with which the network is fastest, and what was compared for it.

    Args:
        raced: what the race of single kernels said; it gives the first choice and the order.
        instance_of: gives the network with some choices, by signature.
        left_s: seconds that are left.
    """
    chosen = {each.signature: each.winner for each in raced}
    told: list[Compared] = []
    best = instance_of(chosen)
    for _ in range(_MOST_SWEEPS):
        changed = False
        for each in sorted(raced, key=lambda one: -min(one.seconds)):
            for rival in _near(each):
                if left_s() <= 0:
                    return chosen, told
                if rival.key == chosen[each.signature].key:
                    continue
                other = instance_of(chosen | {each.signature: rival})
                without, seconds = compare_in_turns(best, other)
                told.append(Compared(each.signature, rival.key, seconds, without))
                if seconds < without * (1 - _GAIN):
                    chosen[each.signature], best, changed = rival, other, True
        if not changed:
            break
    return chosen, told


def _near(raced: FunctionRace) -> list[Choice]:
    """Return the finalists of a function that may be best, the fastest first."""
    most = min(raced.seconds) * _NEAR
    pairs = sorted(zip(raced.seconds, raced.finalists, strict=True), key=lambda pair: pair[0])
    return [choice for seconds, choice in pairs if seconds <= most]


def compare_in_turns(one: NetworkInstance, two: NetworkInstance) -> tuple[float, float]:
    """Return the median seconds of two networks that run in turns."""
    samplers = one.program.sampler(), two.program.sampler()
    runs = _runs(samplers[0])
    samplers[1].sample(1)
    taken: tuple[list[float], list[float]] = [], []
    for number in range(_SAMPLES):
        for sampler, samples in zip(samplers, taken, strict=True):
            samples.append(sampler.sample(runs) / runs)
        if number + 1 >= _FEWEST and min(taken[1]) > min(taken[0]) * (1 + _HOPELESS):
            break
    return statistics.median(taken[0]), statistics.median(taken[1])


def _runs(sampler: Sampler) -> int:
    """Return of how many runs a sample is made."""
    seconds = min(sampler.sample(1) for _ in range(2))
    return max(1, min(_MOST_RUNS, math.ceil(_SAMPLE_S / seconds))) if seconds > 0 else _MOST_RUNS
