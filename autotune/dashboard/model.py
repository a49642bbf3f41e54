"""The data behind the page: the contents of logs, kept up to date while they grow."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.dashboard.charts import best_of, knobs_of, points_of
from autotune.dashboard.energy import fronts_of
from autotune.dashboard.failures import failures_of
from autotune.dashboard.importance import Importance, importance
from autotune.dashboard.json_arrays import real, to_text
from autotune.dashboard.logs import Log, names_of
from autotune.dashboard.runs import Run
from autotune.dashboard.selection import Selection
from autotune.dashboard.table import ordered_by, rows_of, table_of
from autotune.dashboard.timeline import timeline_of
from autotune.dashboard.view import View
from autotune.dashboard.winner import Sources, winners_of
from autotune.version import __version__

# The form of what is sent; a page of another version is loaded anew.
SCHEMA = 1
# Runs whose best is drawn in the roofline.
_MOST_BESTS = 500
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
        for log in self.logs:
            log.read_anew()
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
            "knobs": knobs_of(selection),
            "points": points_of(selection),
            "best": best_of(selection),
            "fronts": fronts_of(selection),
            "failures": failures_of(selection),
            "timeline": timeline_of(beside, view),
            "roofline": self._roofline(runs),
            "winners": winners_of(runs, self.sources),
            "importance": self._known_importance(runs).to_json(),
            "table": table_of(selection, self.logs),
        }

    def table(self, view: View) -> dict[str, object]:
        """Return a part of the table of one workload."""
        return table_of(Selection(self._runs_of(view), view), self.logs)

    def report(self) -> dict[str, object]:
        """Return everything that a page without a server shows.

        What many views have in common is there once, and in them its number.
        """
        overview = self.overview()
        for one in overview["workloads"]:
            self.compute_importance(one["id"])
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
        ordered = ordered_by(selection)
        for start in range(0, len(ordered), at_once):
            yield rows_of(selection, self.logs, ordered[start : start + at_once], whole=True)

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

    def compute_importance(self, workload: int) -> None:
        """Work out how much each knob of a workload matters."""
        task = self.importance_data(workload)
        if task is not None:
            self.set_importance(task[0], importance(*task[1]))

    def importance_data(self, workload: int) -> tuple[str, tuple[Any, ...]] | None:
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

    def set_importance(self, key: str, found: Importance) -> None:
        """Take what `importance` found."""
        self._importance[key] = found
        self.revision += 1

    def _known_importance(self, runs: Sequence[Run]) -> Importance:
        return self._importance.get(_key(runs), Importance())

    # ---- parts

    def _runs_of(self, view: View) -> list[Run]:
        workloads = self.workloads()
        return workloads[view.workload] if view.workload < len(workloads) else []

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
            for run, roof, best in itertools.islice(known, _MOST_BESTS) if roof and best
        ]  # fmt: skip


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


def snapshot(paths: Sequence[Path]) -> dict[str, Any]:
    """Return all that the page shows of logs, as plain JSON, for a page without a server."""
    model = Model(paths)
    model.read()
    return model.report()
