"""The timeline of builders and devices, from the timestamps in records."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.dashboard.json_arrays import real
from autotune.dashboard.runs import Run
from autotune.dashboard.trials import Float
from autotune.dashboard.view import BARS, View

_COLUMNS = ("timestamp", "all_cost", "asked", "build_began", "build_ended", "run_began",
            "device", "error", "seconds")  # fmt: skip


def timeline_of(runs: Sequence[Run], view: View) -> dict[str, object]:
    """Return bars of the latest trials of some runs, on lanes of builders and of devices.

    Builders are told apart by their bars alone: those that overlap are on different lanes. A
    record that does not say when it was built (``stages``) has one bar for all that it took.

    Args:
        runs: of all workloads in some logs, as they share builders and devices.
        view: says which part is wanted.
    """
    runs = [one for one in runs if len(one.trials)]
    if not runs:
        return {"lanes": [], "bars": [], "total": 0, "until": 0, "start": None}
    columns = {
        name: np.concatenate([one.trials.column(name) for one in runs]) for name in _COLUMNS
    }
    owner = np.repeat(np.arange(len(runs)), [len(one.trials) for one in runs])
    number = np.concatenate([np.arange(1, len(one.trials) + 1) for one in runs])
    order = np.argsort(columns["timestamp"], kind="stable")
    until = len(order) if view.timeline_end is None else min(view.timeline_end, len(order))
    part = order[max(0, until - BARS) : until]
    began = columns["timestamp"] - columns["all_cost"]
    start = float(np.nanmin(np.fmin(began, columns["asked"])))
    drawn, places = _Lanes(start), part[np.argsort(began[part], kind="stable")]
    moments = [columns[name][places].tolist() for name in _COLUMNS]
    rows = zip(owner[places].tolist(), number[places].tolist(), *moments, strict=True)
    for run, trial, *row in rows:
        known = dict(zip(_COLUMNS, row, strict=True))
        about = {
            "run": runs[run].number,
            "trial": trial,
            "error": int(known["error"]),
            "seconds": real(known["seconds"]),
        }
        drawn.trial(known, about)
    return {"lanes": drawn.names, "bars": drawn.bars, "total": len(order), "until": until,
            "start": real(start, 13), "idle": _waited(columns, part)}  # fmt: skip


def _waited(columns: dict[str, Float], part: Any) -> dict[str, float | None]:
    """Return the median seconds that these trials waited for a builder, and for a device."""
    asked, began = columns["asked"][part], columns["build_began"][part]
    ended, ran = columns["build_ended"][part], columns["run_began"][part]
    return {"builder": _median(began - asked), "device": _median(ran - ended)}


def _median(values: Float) -> float | None:
    known = values[np.isfinite(values)]
    return real(float(np.median(known)), 3) if len(known) else None


class _Lanes:
    """Bars on lanes, each on the first free one."""

    def __init__(self, start: float) -> None:
        self.bars: list[dict[str, object]] = []
        self._start = start
        self._numbers: dict[str, int] = {}
        # Of each kind of lane, when each is free again, and its number.
        self._free: dict[str, list[tuple[float, int]]] = {}
        self._made: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """The names of the lanes, in the order of their numbers."""
        return list(self._numbers)

    def trial(self, moments: dict[str, float], about: dict[str, object]) -> None:
        """Draw one trial."""
        end, ran = moments["timestamp"], moments["run_began"]
        if not math.isfinite(moments["build_began"]):
            began = end - moments["all_cost"]
            self._bar(self._packed("trials", began, end), "trial", began, end, about)
            return
        began, built = moments["build_began"], moments["build_ended"]
        self._bar(self._packed("builder", began, built), "build", began, built, about,
                  waited=began - moments["asked"])  # fmt: skip
        if math.isfinite(ran):
            lane = f"device {int(moments['device'])}"
            self._bar(lane, "run", ran, end, about, waited=ran - built)

    def _packed(self, kind: str, began: float, end: float) -> str:
        free = self._free.setdefault(kind, [])
        if free and free[0][0] <= began + 1e-3:
            _, number = heapq.heappop(free)
        else:
            number = self._made[kind] = self._made.get(kind, 0) + 1
        heapq.heappush(free, (end, number))
        return f"{kind} {number}"

    def _bar(
        self, lane: str, what: str, began: float, end: float, about: dict[str, object],
        waited: float = 0.0,
    ) -> None:  # fmt: skip
        number = self._numbers.setdefault(lane, len(self._numbers))
        self.bars.append(
            {
                "lane": number,
                "what": what,
                "from": round(began - self._start, 4),
                "to": round(end - self._start, 4),
                "waited": round(max(0.0, waited), 4),
                **about,
            }
        )
