"""Allocation of trials to the implementations of functions, by expected gain."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from autotune.network.tuning.arms import Arm, Tuned

# The gain of another round: a part of that of the last rounds, rounds looked back at, and a
# part of the time over the number of rounds: the first few find most of what there is.
_PAST, _WINDOW, _NEXT = 0.2, 3, 0.3
# What is this close to what no kernel can beat is not worth a trial.
_AT_FLOOR = 1.15
# Of a way that seems beaten: the part of its gain that is believed in nevertheless.
_BEATEN = 0.02
# Of a way that was not tried for a function: how much better than elsewhere it may turn out, and
# how much slower than the best one counts at most.
_UNTRIED, _HOPELESS = 0.5, 100.0


def next_arm(functions: Sequence[Tuned]) -> tuple[Tuned, Arm] | None:
    """Return the arm to tune next, or None where nothing is left to try.

    Functions of which a round is under way wait for its end.

    First every function gets a kernel, the largest first. From then on a round goes where the
    network gains most per second, as in Ansor's scheduler of tasks (Zheng et al., OSDI 2020,
    section 6), with a function's gain counted from the best of all its ways. What a way that was
    not tried yet takes, and how long its first round lasts, is judged by what it did for other
    functions; one that was tried for none is expected to be as good as the others, so that large
    functions show it, and small ones do not wait for each. A first look promises more than another
    round: every function is soon computed in every way that does well.
    """
    idle = [t for t in functions if not any(arm.busy for arm in t.arms)]
    open_to = [(t, arm) for t in idle for arm in t.arms if not arm.exhausted]
    if not open_to:
        return None
    without = [(t, arm) for t, arm in open_to if math.isinf(t.seconds) and not arm.best_by_round]
    if without:
        return max(without, key=lambda pair: pair[0].calls * pair[0].function.flop)
    means = _means_by_arm(functions)
    usual_s = statistics.fmean([s for _, s in means.values()]) if means else 1.0
    # What is tried for the first time is tried for one function.
    for way in {arm.name for t in functions for arm in t.arms if arm.busy} - set(means):
        means[way] = _HOPELESS, usual_s

    def gain(pair: tuple[Tuned, Arm]) -> float:
        tuned, arm = pair
        if arm.best_by_round:
            return gain_per_second(tuned, arm)
        return _expected_gain(tuned, *means.get(arm.name, (1.0, usual_s)))

    best = max(open_to, key=gain)
    return best if gain(best) > 0 else None


def _means_by_arm(functions: Sequence[Tuned]) -> dict[str, tuple[float, float]]:
    """Return of each way its time against the best of any, and the seconds of its first round.

    Both are means over the functions that it was tried for, the first a geometric one.
    """
    ratios: dict[str, list[float]] = {}
    rounds: dict[str, list[float]] = {}
    for tuned in functions:
        for arm in tuned.arms:
            if arm.best_by_round:
                ratio = _HOPELESS
                if math.isfinite(arm.seconds) and tuned.seconds > 0:  # clocks are coarse
                    ratio = arm.seconds / tuned.seconds
                ratios.setdefault(arm.name, []).append(math.log(min(ratio, _HOPELESS)))
                rounds.setdefault(arm.name, []).append(_round_s(arm))
    return {
        name: (math.exp(statistics.fmean(logs)), statistics.fmean(rounds[name]))
        for name, logs in ratios.items()
    }


def _expected_gain(tuned: Tuned, ratio: float, round_s: float) -> float:
    """Return the expected gain of a second of a way's first round, by its means over functions."""
    if _done(tuned):
        return 0.0
    total = tuned.calls * _finite(tuned.seconds)
    return total * max(1 - _UNTRIED * ratio, _BEATEN) / round_s


def gain_per_second(tuned: Tuned, arm: Arm) -> float:
    """Return by how many seconds a run of the network may fall, for a second of tuning an arm."""
    if _done(tuned):
        return 0.0
    rounds = max(len(arm.best_by_round), 1)
    if math.isinf(arm.seconds):  # nothing works so far
        return tuned.calls * _finite(tuned.seconds) * _BEATEN / (rounds**2 * _round_s(arm))
    past = 0.0
    if len(arm.best_by_round) > _WINDOW and math.isfinite(arm.best_by_round[-1 - _WINDOW]):
        past = (arm.best_by_round[-1 - _WINDOW] - arm.best_by_round[-1]) / _WINDOW
    falls = _PAST * past + _NEXT * arm.seconds / rounds
    reached = max(arm.seconds - falls, tuned.floor_s)
    gain = max(tuned.seconds - reached, _BEATEN * tuned.seconds / rounds)
    return tuned.calls * gain / _round_s(arm)


def _done(tuned: Tuned) -> bool:
    return tuned.seconds <= _AT_FLOOR * tuned.floor_s


def _round_s(arm: Arm) -> float:
    return max(_finite(arm.round_s), 1e-3)


def _finite(seconds: float) -> float:
    return seconds if math.isfinite(seconds) else 1.0
