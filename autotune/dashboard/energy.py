"""Energy beside time: which trials no other one beats in both."""

from __future__ import annotations

import numpy as np

from autotune.dashboard.downsampling import Places
from autotune.dashboard.json_arrays import reals, wholes
from autotune.dashboard.selection import Selection
from autotune.dashboard.trials import Float


def energies_of(selection: Selection) -> list[float | None]:
    """Return the joules of one run of each trial that charts show; empty if none knows them."""
    joules = selection.field("joules")[selection.shown]
    return reals(joules) if np.isfinite(joules).any() else []


def fronts_of(selection: Selection) -> list[dict[str, object]]:
    """Return the Pareto front of time and energy of each run that knows its energy.

    It is that of all trials that match, also of those that charts leave out. Runs are not
    compared with each other, as they may have been measured on different devices.
    """
    seconds, joules = selection.field("seconds"), selection.field("joules")
    known = selection.wanted[np.isfinite((seconds + joules)[selection.wanted])]
    found: list[dict[str, object]] = []
    for i, run in enumerate(selection.runs):
        places = known[selection.run[known] == i]
        if len(places):
            front = places[_front(seconds[places], joules[places])]
            found.append(
                {
                    "run": run.number,
                    "known": len(places),
                    "trial": wholes(selection.number[front]),
                    "seconds": reals(seconds[front]),
                    "joules": reals(joules[front]),
                }
            )
    return found


def _front(seconds: Float, joules: Float) -> Places:
    """Return the places of what nothing beats in both, the fastest first."""
    order = np.lexsort((joules, seconds))
    least = np.minimum.accumulate(joules[order])
    before = np.concatenate([[np.inf], least[:-1]])
    return order[joules[order] < before]
