"""The data behind the page: the contents of logs, kept up to date while they grow."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.dashboard.energy import energies_of, fronts_of
from autotune.dashboard.failures import failures_of, message_of
from autotune.dashboard.importance import Importance, importance
from autotune.dashboard.json_arrays import real, reals, to_text, wholes
from autotune.dashboard.logs import Log, names_of
from autotune.dashboard.runs import Run
from autotune.dashboard.selection import Knob, Selection
from autotune.dashboard.table import Float
from autotune.dashboard.thin import improvements
from autotune.dashboard.timeline import timeline_of
from autotune.dashboard.view import View
from autotune.dashboard.winner import Sources, winners_of
from autotune.version import __version__

# The form of what is sent; a page of another version is loaded anew.
SCHEMA = 1
# Values of a knob that are all told; of more, only those of trials that are shown.
_MOST_VALUES = 500
# Fields of a trial by which the table is sorted.
_SORTED = ("seconds", "spread", "error", "all_cost", "device", "roofline", "joules", "timestamp")
# Workloads that are sent; a network has some dozens.
_MOST_WORKLOADS = 2000
# Importance is worked out again when there are so many times more trials.
_AGAIN = 1.5


class Model:
    """Logs as data for charts.

    Args:
        paths: the logs; they need not exist yet.
        sources: makes the texts of winners.

    Attributes:
        revision: rises with each change.
        logs: one a path.
        workers: who builds and measures on other hosts, a row for each, see `Runner.fleet_status`.
    """

    def __init__(self, paths: Sequence[Path], sources: Sources | None = None) -> None:
        places = list(map(Path, paths))
        self.logs = [
            Log(i, *one) for i, one in enumerate(zip(places, names_of(places), strict=True))
        ]
        self.sources = sources or Sources()
        self.revision = 0
        self.workers: list[dict[str, object]] = []
        self._runs_made = 0
        self._importance: dict[str, Importance] = {}

    # ---- reading

    def poll(self, budget_s: float = 0.1) -> bool:
        """Read what is new, for about so long; return whether there is more to read at once."""
        until = time.monotonic() + budget_s
        more = False
        for log in self.logs:
            while True:
                if log.poll(self._number):
                    self.revision += 1
                if not log.more:
                    break
                if time.monotonic() >= until:
                    more = True
                    break
        return more

    def read(self) -> None:
        """Read all that is in the logs now, also a last line without its newline."""
        while self.poll():
            pass

    def _number(self) -> int:
        self._runs_made += 1
        return self._runs_made - 1

    # ---- telling

    @property
    def runs(self) -> list[Run]:
        """All runs of all logs."""
        return [run for log in self.logs for run in log.runs.values()]

    def workloads(self) -> list[list[Run]]:
        """Return the runs of each workload, in the order in which workloads appear."""
        found: dict[tuple[str, str], list[Run]] = {}
        for run in self.runs:
            found.setdefault((run.name.kind, run.name.key), []).append(run)
        return list(found.values())

    def overview(self) -> dict[str, Any]:
        """Return the logs, and the table of what was tuned in them."""
        all_of = self.workloads()
        workloads = [_workload(runs) for runs in all_of[:_MOST_WORKLOADS]]
        return {
            "schema": SCHEMA,
            "version": __version__,
            "revision": self.revision,
            "logs": [log.summary() for log in self.logs],
            "workloads": [{"id": i, **one} for i, one in enumerate(workloads)],
            "more": len(all_of) - len(workloads),
            "workers": self.workers,
        }

    def view(self, view: View) -> dict[str, Any]:
        """Return the charts, the timeline, the winners and a part of the table of one workload."""
        runs = self._runs_of(view)
        selection = Selection(runs, view)
        logs = {run.log for run in runs}
        beside = [run for run in self.runs if run.log in logs]
        return {
            "workload": view.workload,
            "revision": self.revision,
            "runs": [run.summary() for run in runs],
            "total": len(selection.run),
            "matching": len(selection.wanted),
            "shown": len(selection.shown),
            "knobs": self._knobs(selection),
            "points": _points(selection),
            "best": _best(selection),
            "fronts": fronts_of(selection),
            "failures": failures_of(selection),
            "timeline": timeline_of(beside, view),
            "roofline": self._roofline(runs),
            "winners": winners_of(runs, self.sources),
            "importance": self._known_importance(runs).to_json(),
            "table": self._table(selection),
        }

    def table(self, view: View) -> dict[str, object]:
        """Return a part of the table of one workload."""
        return self._table(Selection(self._runs_of(view), view))

    def report(self) -> dict[str, object]:
        """Return everything that a page without a server shows.

        What many views have in common is there once, and in them its number.
        """
        overview = self.overview()
        for one in overview["workloads"]:
            self.weigh(one["id"])
        views = [self.view(View(workload=one["id"])) for one in overview["workloads"]]
        shared: dict[str, int] = {}
        for view in views:
            timeline = to_text(view["timeline"])
            view["timeline"] = shared.setdefault(timeline, len(shared))
            del view["roofline"]["others"]
        return {
            "overview": overview,
            "views": views,
            "timelines": list(map(json.loads, shared)),
            "others": self._bests(),
        }

    def rows(self, view: View, at_once: int) -> Iterator[list[dict[str, object]]]:
        """Yield all trials of a view in full, one object per trial, in parts."""
        selection = Selection(self._runs_of(view), view)
        ordered = self._ordered(selection)
        for start in range(0, len(ordered), at_once):
            yield self._rows(selection, ordered[start : start + at_once], whole=True)

    def knob_names(self, view: View) -> list[str]:
        """Return the names of the knobs of a view's workload."""
        return list(dict.fromkeys(k for run in self._runs_of(view) for k in run.trials.knobs))

    # ---- importance, which takes longer than the rest

    def wants_importance(self, workload: int) -> bool:
        """Return whether there are many more trials than when the importance was computed."""
        runs = self._runs_of(View(workload=workload))
        good = sum(int((run.trials.column("error") == 0).sum()) for run in runs)
        known = self._known_importance(runs)
        return bool(runs) and (good > known.trials * _AGAIN or good < known.trials)

    def weigh(self, workload: int) -> None:
        """Work out how much each knob of a workload matters."""
        task = self.to_weigh(workload)
        if task is not None:
            self.weighed(task[0], importance(*task[1]))

    def to_weigh(self, workload: int) -> tuple[str, tuple[Any, ...]] | None:
        """Return what `importance` needs, copied, so that another thread may work on it."""
        runs = self._runs_of(View(workload=workload))
        if not runs:
            return None
        selection = Selection(runs, View(workload=workload))
        seconds = selection.field("seconds")
        good = np.flatnonzero(np.isfinite(seconds))
        # Beside the middle of its own run: knobs are asked about, not devices.
        for place in np.unique(selection.run[good]):
            of_run = good[selection.run[good] == place]
            seconds[of_run] /= np.exp(np.log(seconds[of_run]).mean())
        codes = {knob.name: knob.codes[good] for knob in selection.knobs}
        labels = {knob.name: list(knob.labels) for knob in selection.knobs}
        return _key(runs), (seconds[good], codes, labels)

    def weighed(self, key: str, found: Importance) -> None:
        """Take what `importance` found."""
        self._importance[key] = found
        self.revision += 1

    def _known_importance(self, runs: Sequence[Run]) -> Importance:
        return self._importance.get(_key(runs), Importance())

    # ---- parts

    def _runs_of(self, view: View) -> list[Run]:
        workloads = self.workloads()
        return workloads[view.workload] if view.workload < len(workloads) else []

    def _knobs(self, selection: Selection) -> list[dict[str, object]]:
        return [
            {"name": knob.name, "labels": _told(knob, selection)[0]} for knob in selection.knobs
        ]

    def _roofline(self, runs: Sequence[Run]) -> dict[str, object]:
        """Return the roofs of the runs, and where the best of other workloads are."""
        own = {run.number for run in runs}
        roofs = [
            {"run": run.number, "flop": run.roof[0], "bytes": run.roof[1],
             "flops": run.roof[2], "bandwidth": run.roof[3]}
            for run in runs if run.roof
        ]  # fmt: skip
        others = [one for one in self._bests() if one["run"] not in own]
        return {"roofs": roofs, "others": others}

    def _bests(self) -> list[dict[str, object]]:
        """Return the best of each run that says how much it does."""
        known = ((run, run.roof, run.best) for run in self.runs if run.roof and run.best)
        return [
            {"run": run.number, "title": run.name.title, "flop": roof[0], "bytes": roof[1],
             "seconds": real(best[1].seconds)}
            for run, roof, best in itertools.islice(known, _MOST_VALUES) if roof and best
        ]  # fmt: skip

    def _table(self, selection: Selection) -> dict[str, object]:
        view = selection.view
        ordered = self._ordered(selection)
        part = ordered[view.offset : view.offset + view.rows]
        return {
            "total": len(ordered),
            "offset": view.offset,
            "sort": view.sort,
            "descending": view.descending,
            "rows": self._rows(selection, part),
        }

    def _ordered(self, selection: Selection) -> Any:
        places, view = selection.wanted, selection.view
        values = self._sorted_by(selection, view.sort)[places]
        known = np.isfinite(values)
        order = np.argsort(np.where(known, -values if view.descending else values, np.inf),
                           kind="stable")  # fmt: skip
        return places[order]

    def _sorted_by(self, selection: Selection, sort: str) -> Float:
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

    def _rows(
        self, selection: Selection, places: Any, whole: bool = False
    ) -> list[dict[str, object]]:
        fields = {name: selection.field(name) for name in ("line", *_SORTED)}
        return [self._row(selection, fields, int(place), whole) for place in places]

    def _row(
        self, selection: Selection, fields: Any, place: int, whole: bool
    ) -> dict[str, object]:
        run = selection.runs[selection.run[place]]
        trial = int(selection.number[place])
        return {
            "run": run.number,
            "log": self.logs[run.log].name,
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


def _key(runs: Sequence[Run]) -> str:
    return "\n".join((runs[0].name.kind, runs[0].name.key)) if runs else ""


def _workload(runs: Sequence[Run]) -> dict[str, object]:
    """Return one line of the table of what was tuned."""
    all_of = [run.summary() for run in runs]
    best = min(all_of, key=lambda one: one["best_seconds"] or float("inf"))
    return {
        "title": runs[0].name.title,
        "kind": runs[0].name.kind,
        "targets": sorted({run.target for run in runs}),
        "runs": len(runs),
        "trials": sum(one["trials"] for one in all_of),
        "ok": sum(one["ok"] for one in all_of),
        "best_seconds": real(best["best_seconds"]),
        "default_seconds": real(best["default_seconds"]),
        "last": real(max((one["ended"] or 0.0 for one in all_of), default=0.0), 14),
        "spent": real(sum(float(run.trials.column("all_cost").sum()) for run in runs), 6),
    }


def _points(selection: Selection) -> dict[str, object]:
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


def _best(selection: Selection) -> list[dict[str, object]]:
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


def snapshot(paths: Sequence[Path]) -> dict[str, Any]:
    """Return all that the page shows of logs, as plain JSON, for a page without a server."""
    model = Model(paths)
    model.read()
    return model.report()
