"""Thinning of the points of a chart: improvements, the fastest and each kind of failure stay.

Kept are, in this order: every trial that was better than all before it in its run; the fastest
trials; the first failure of every text; the first and the last trial of each run. What room is
left goes to all others, at even steps along each run, failures and successes in the proportion in
which they occur. Counts, texts of failures and the curve of the best are never thinned.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.utils.math import ceil_div

Places = npt.NDArray[np.intp]
# Of the fastest so many are always there.
FASTEST = 200
# Of failures with different texts at most this share of all points.
_TEXTS = 4


def thin(
    seconds: npt.NDArray[np.float64],
    run: npt.NDArray[np.int32],
    text: npt.NDArray[np.int64],
    most: int,
) -> Places:
    """Return the places of the trials to show, in order.

    Args:
        seconds: of each trial; NaN where it failed.
        run: which run it belongs to; runs follow one another.
        text: number of what went wrong, different for different texts; negative where nothing did.
        most: how many may be shown; improvements are, even beyond that.
    """
    count = len(seconds)
    if count <= most:
        return np.arange(count)
    kept = np.zeros(count, dtype=bool)
    for one in np.unique(run):
        places = np.flatnonzero(run == one)
        kept[places[improvements(seconds[places])]] = True
        kept[places[[0, -1]]] = True
    good = np.flatnonzero(np.isfinite(seconds))
    kept[good[np.argsort(seconds[good], kind="stable")[:FASTEST]]] = True
    failed = np.flatnonzero(text >= 0)
    _, first = np.unique(text[failed], return_index=True)
    kept[failed[np.sort(first)[: most // _TEXTS]]] = True
    rest = np.flatnonzero(~kept)
    room = most - int(kept.sum())
    if room > 0:
        # Successes and failures each at even steps: neither crowds the other out.
        for group in (rest[text[rest] < 0], rest[text[rest] >= 0]):
            share = min(len(group), ceil_div(room * len(group), len(rest)))
            kept[group[np.linspace(0, len(group) - 1, share).astype(np.intp)]] = True
    return np.flatnonzero(kept)


def improvements(seconds: npt.NDArray[np.float64]) -> Places:
    """Return the places of trials that were faster than all before them."""
    known = np.where(np.isfinite(seconds), seconds, np.inf)
    best = np.minimum.accumulate(known) if len(known) else known
    before = np.concatenate([[np.inf], best[:-1]]) if len(known) else known
    return np.flatnonzero(known < before)
