"""Interim analysis of a race: whether it is decided before its last round.

After some of its rounds the race is simulated many times, with samples drawn with replacement
from those taken (bootstrap, Efron and Tibshirani 1993). If nearly all of these simulations have
the present winner, more rounds would hardly name another, and the race ends, as races among
models do (Maron and Moore 1994). Near ties, and candidates at the edge of a tie, take all rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from autotune.measure.final.choose import Finalist, choose
from autotune.runtime.timing import Timing, median_rank

# Simulated races of each analysis; the share that may have another winner must be many of them.
DRAWS = 1000

Floats = npt.NDArray[np.float64]
# Of one device: for each heat the timings of all who ran, in one order.
Heats = Sequence[Sequence[Timing]]


@dataclass(frozen=True)
class InterimTimes:
    """The times of a race under way.

    Attributes:
        devices: what was timed on each device.
        place: for each finalist, which of those who ran is its code.
        apart: whether heats differ by more than chance, because each ran in a process of its own:
            they are then drawn whole, and samples within them.
    """

    devices: Sequence[Heats]
    place: Sequence[int]
    apart: bool


def is_decided(
    rows: Sequence[Finalist],
    interim: InterimTimes,
    incumbent: str | None,
    risk: float,
) -> bool:
    """Return whether at most a share ``risk`` of races like this one have another winner.

    Args:
        rows: the finalists, in their present order.
        interim: the times so far.
        incumbent: as for `choose`.
        risk: share of races that may end with another winner; an estimate.
    """
    rng = np.random.default_rng(0)
    drawn = [_scale(_drawn(heats, interim.apart, rng)) for heats in interim.devices]
    seconds, low, high = np.exp(np.mean(np.log(np.maximum(drawn, 1e-300)), axis=0))
    winner, others, most = choose(rows, incumbent).key, 0, int(risk * DRAWS)
    for one in zip(seconds.T.tolist(), low.T.tolist(), high.T.tolist(), strict=True):
        raced = [
            replace(row, seconds=one[0][i], low=one[1][i], high=one[2][i])
            for row, i in zip(rows, interim.place, strict=True)
        ]
        others += choose(raced, incumbent).key != winner
        if others > most:
            return False
    return True


def _drawn(heats: Heats, apart: bool, rng: np.random.Generator) -> Floats:
    """Return medians and both ends of their intervals, by who ran and by draw."""
    groups = [[one.samples_s for one in heat] for heat in heats]
    if not apart:
        groups = [[tuple(chain(*samples)) for samples in zip(*groups, strict=True)]]
    heat = rng.integers(len(groups), size=(DRAWS, len(groups)))
    rows = [_resample([group[i] for group in groups], heat, rng) for i in range(len(groups[0]))]
    return np.stack(rows, axis=1)


def _resample(
    groups: Sequence[Sequence[float]], heat: npt.NDArray[np.int64], rng: np.random.Generator
) -> Floats:
    """Return median, low and high of each draw of one candidate's samples."""
    sizes = np.array([len(group) for group in groups])
    table = np.zeros((len(groups), int(sizes.max())))
    for row, group in zip(table, groups, strict=True):
        row[: len(group)] = group
    each = int(sizes.min())
    position = rng.random((*heat.shape, each)) * sizes[heat][..., None]
    taken = table[heat[..., None], position.astype(np.int64)].reshape(len(heat), -1)
    taken.sort(axis=1)
    rank = median_rank(taken.shape[1])
    return np.stack([np.median(taken, axis=1), taken[:, rank], taken[:, -1 - rank]])


def _scale(times: Floats) -> Floats:
    """Return times relative to the fastest of their draw: devices differ, ratios are joined."""
    scaled: Floats = times / np.maximum(times[0].min(axis=0), 1e-300)
    return scaled
