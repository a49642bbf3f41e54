"""The table of trials: its rows, sorted and cut as a view asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.dashboard.downsampling import Places
from autotune.dashboard.failures import message_of
from autotune.dashboard.json_arrays import real
from autotune.dashboard.logs import Log
from autotune.dashboard.selection import Selection
from autotune.dashboard.trials import Float

# Fields of a trial by which the table is sorted.
_SORTED = ("seconds", "spread", "error", "all_cost", "device", "roofline", "joules", "timestamp")


def table_of(selection: Selection, logs: Sequence[Log]) -> dict[str, object]:
    """Return the part of the table that a view asks for."""
    view = selection.view
    ordered = ordered_by(selection)
    part = ordered[view.offset : view.offset + view.rows]
    return {
        "total": len(ordered),
        "offset": view.offset,
        "sort": view.sort,
        "descending": view.descending,
        "rows": rows_of(selection, logs, part),
    }


def ordered_by(selection: Selection) -> Places:
    """Return the places of the trials that pass all filters, in the order of the table."""
    places, view = selection.wanted, selection.view
    values = _sorted_by(selection, view.sort)[places]
    known = np.isfinite(values)
    order = np.argsort(np.where(known, -values if view.descending else values, np.inf),
                       kind="stable")  # fmt: skip
    return places[order]


def _sorted_by(selection: Selection, sort: str) -> Float:
    if sort.startswith("knob:"):
        name = sort.removeprefix("knob:")
        for knob in selection.knobs:
            if knob.name == name:
                return knob.codes.astype(np.float64)
    if sort == "time":
        return selection.time
    if sort == "run":
        return selection.run.astype(np.float64)
    if sort in _SORTED:
        return selection.field(sort)
    return selection.number.astype(np.float64)


def rows_of(
    selection: Selection, logs: Sequence[Log], places: Places, whole: bool = False
) -> list[dict[str, object]]:
    """Return the rows of some trials; values of knobs as texts, unless they are wanted whole."""
    fields = {name: selection.field(name) for name in ("line", *_SORTED)}
    return [_row(selection, logs, fields, int(place), whole) for place in places]


def _row(
    selection: Selection, logs: Sequence[Log], fields: Any, place: int, whole: bool
) -> dict[str, object]:
    run = selection.runs[selection.run[place]]
    trial = int(selection.number[place])
    return {
        "run": run.number,
        "log": logs[run.log].name,
        "target": run.target,
        "trial": trial,
        "line": int(fields["line"][place]),
        "key": run.trials.keys[trial - 1],
        "time": real(float(selection.time[place])),
        "seconds": real(float(fields["seconds"][place])),
        "spread": real(float(fields["spread"][place]), 4),
        "error": int(fields["error"][place]),
        "error_msg": message_of(selection, place, run),
        "all_cost": real(float(fields["all_cost"][place]), 5),
        "device": int(fields["device"][place]),
        "roofline": real(float(fields["roofline"][place]), 4),
        "joules": real(float(fields["joules"][place])),
        "timestamp": real(float(fields["timestamp"][place]), 14),
        "config": {
            knob.name: (knob.value if whole else knob.labels.__getitem__)(knob.codes[place])
            for knob in selection.knobs if knob.codes[place] >= 0
        },
    }  # fmt: skip
