"""Which way of which function gets the next trials: the one that promises most for its time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from autotune.network.arms import Arm, Tuned

# Weight of what the last rounds brought, against an optimist's guess; rounds looked back at.
_PAST, _WINDOW = 0.2, 3
# What is this close to what no kernel can beat is not worth a trial.
_AT_FLOOR = 1.15
# Of a way that seems beaten: the part of its gain that is believed in nevertheless.
_BEATEN = 0.02


def next_arm(functions: Sequence[Tuned]) -> tuple[Tuned, Arm] | None:
    """Return what to tune next, or None where nothing is left to try.

    First every function gets a kernel, the largest first; then each way a first look, those of
    what takes longest first. From then on a round goes where the network gains most per second,
    as in Ansor's scheduler of tasks (Zheng et al., OSDI 2020, section 6), with a function's gain
    counted from the best of all its ways.
    """
    open_to = [(t, arm) for t in functions for arm in t.arms if not arm.exhausted]
    if not open_to:
        return None
    without = [(t, arm) for t, arm in open_to if math.isinf(t.seconds) and not arm.best_by_round]
    if without:
        return max(without, key=lambda pair: pair[0].calls * pair[0].function.flop)
    fresh = [(t, arm) for t, arm in open_to if not arm.best_by_round and not _done(t)]
    if fresh:
        return max(fresh, key=lambda pair: pair[0].calls * _finite(pair[0].seconds))
    best = max(open_to, key=lambda pair: gain_per_second(*pair))
    return best if gain_per_second(*best) > 0 else None


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
    falls = _PAST * past + (1 - _PAST) * arm.seconds / rounds
    reached = max(arm.seconds - falls, tuned.floor_s)
    gain = max(tuned.seconds - reached, _BEATEN * tuned.seconds / rounds)
    return tuned.calls * gain / _round_s(arm)


def _done(tuned: Tuned) -> bool:
    return tuned.seconds <= _AT_FLOOR * tuned.floor_s


def _round_s(arm: Arm) -> float:
    return max(_finite(arm.round_s), 1e-3)


def _finite(seconds: float) -> float:
    return seconds if math.isfinite(seconds) else 1.0
