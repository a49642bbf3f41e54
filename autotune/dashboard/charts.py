"""What the charts show of the trials of a view."""

from __future__ import annotations

import numpy as np

from autotune.dashboard.downsampling import improvements
from autotune.dashboard.energy import energies_of
from autotune.dashboard.json_arrays import real, reals, wholes
from autotune.dashboard.selection import Knob, Selection

# Values of a knob that are all told; of more, only those of trials that are shown.
_MOST_VALUES = 500


def knobs_of(selection: Selection) -> list[dict[str, object]]:
    """Return the name and the values of each knob."""
    return [{"name": knob.name, "labels": _told(knob, selection)[0]} for knob in selection.knobs]


def points_of(selection: Selection) -> dict[str, object]:
    """Return the trials that charts show, column by column."""
    at = selection.shown
    runs = np.array([run.number for run in selection.runs], dtype=int)
    return {
        "run": runs[selection.run[at]].tolist() if len(at) else [],
        "trial": wholes(selection.number[at]),
        "line": wholes(selection.field("line")[at]),
        "key": [
            selection.runs[selection.run[i]].trials.keys[int(selection.number[i]) - 1] for i in at
        ],
        "time": reals(selection.time[at]),
        "seconds": reals(selection.field("seconds")[at]),
        "spread": reals(selection.field("spread")[at], 3),
        "error": wholes(selection.field("error")[at]),
        "device": wholes(selection.field("device")[at]),
        "roofline": reals(selection.field("roofline")[at], 4),
        "joules": energies_of(selection),
        "all_cost": reals(selection.field("all_cost")[at], 5),
        "knobs": [_told(knob, selection)[1] for knob in selection.knobs],
    }


def _told(knob: Knob, selection: Selection) -> tuple[list[str], list[int]]:
    """Return the values of a knob that the page gets, and which of them each point has."""
    codes = knob.codes[selection.shown]
    if len(knob.labels) <= _MOST_VALUES:
        return list(knob.labels), codes.tolist()
    used, places = np.unique(codes[codes >= 0], return_inverse=True)
    numbers = np.full(len(codes), -1)
    numbers[codes >= 0] = places
    return [knob.labels[i] for i in used], numbers.tolist()


def best_of(selection: Selection) -> list[dict[str, object]]:
    """Return, for each run, the trials that were faster than all before, of all that match."""
    found = []
    seconds = selection.field("seconds")
    for i, run in enumerate(selection.runs):
        places = selection.wanted[selection.run[selection.wanted] == i]
        if not len(places):
            continue
        better = places[improvements(seconds[places])]
        found.append(
            {
                "run": run.number,
                "trial": wholes(selection.number[better]),
                "time": reals(selection.time[better]),
                "seconds": reals(seconds[better]),
                "last_trial": int(selection.number[places[-1]]),
                "last_time": real(float(selection.time[places].max())),
            }
        )
    return found
