"""The trials of one workload on one target in one log, and the best of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from autotune.dashboard.lines import LogEntry, Name, choices_of
from autotune.dashboard.table import NONE, Float, Labels, Trials
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record.best import beats

_LONGEST_LABEL = 200


class Run:
    """One run: what stands in one log of one workload on one target.

    Args:
        number: of the run among all.
        log: number of its log.
        target: as the log has it.
        name: what was tuned.

    Attributes:
        trials: the columns.
        best: the record that is replayed, see `autotune.record.best_of`; None before one works.
        best_line: where it stands.
        messages: what went wrong, in the words of whoever refused.
        roof: of the last trial that says it, see `Evidence.roof`.
    """

    def __init__(self, number: int, log: int, target: str, name: Name) -> None:
        self.number, self.log, self.target, self.name = number, log, target, name
        self.trials = Trials()
        self.messages = Labels()
        self.best: Pair | None = None
        self.best_line = 0
        self.roof: tuple[float, ...] | None = None
        # Of a knob the number of each choice that was met, by the object that stands for it; the
        # object is kept, so that no other gets its address.
        self._met: dict[str, dict[int, tuple[object, tuple[int, int]]]] = {}

    def add(self, trial: LogEntry, line: int) -> None:
        """Take a record; the note of a race is no trial."""
        inp, result = trial.inp, trial.result
        if result.ok and result.costs:
            pair = inp, result
            if self.best is None or beats(pair, self.best):
                self.best, self.best_line = pair, line
        if not trial.race:
            self.trials.append(inp.key, self._numbers(result, line), self._choices(inp))
            self.roof = result.evidence.roof or self.roof

    def _numbers(self, result: MeasureResult, line: int) -> tuple[float, ...]:
        known = result.evidence
        resources: Mapping[str, float | None] = known.resources or {}
        message = self.messages.code(result.error_msg) if result.error_no else NONE
        asked, began, ended, ran = _moments(result.timestamp, known.stages)
        low, high = known.ci95 or (math.nan, math.nan)
        seconds = result.seconds
        return (
            line, seconds if seconds < math.inf else math.nan, result.error_no, result.all_cost,
            result.timestamp, _number(known.noise_floor), low, high, _number(known.roofline),
            known.device or 0, message, asked, began, ended, ran,
            _number(resources.get("registers")), _number(resources.get("shared_bytes")),
            _number(resources.get("spill_bytes")),
        )  # fmt: skip

    def _choices(self, inp: MeasureInput) -> list[tuple[int, int]]:
        found = []
        for name, same, value in choices_of(inp.config):
            met = self._met.setdefault(name, {})
            known = met.get(id(same)) if same is not None else None
            if known is None:
                place = self.trials.knob(name)
                if place == NONE:
                    continue
                plain = value.to_json() if hasattr(value, "to_json") else value
                code = self.trials.labels[place].code(_label(plain))
                known = same, (place, code)
                if same is not None:
                    met[id(same)] = known
            found.append(known[1])
        return found

    @property
    def started(self) -> float:
        """When the first trial was asked for, as near as the log tells; NaN without a trial."""
        if not len(self.trials):
            return math.nan
        began = self.trials.column("timestamp") - self.trials.column("all_cost")
        return float(np.nanmin(np.fmin(began, self.trials.column("asked"))))

    def since_start(self) -> Float:
        """Return seconds from the begin of the run to the end of each trial."""
        return self.trials.column("timestamp") - self.started

    def summary(self) -> dict[str, Any]:
        """Return the run in a few numbers."""
        error = self.trials.column("error")
        stamps = self.trials.column("timestamp")
        best = self.best
        return {
            "id": self.number,
            "log": self.log,
            "target": self.target,
            "trials": len(self.trials),
            "ok": int((error == 0).sum()),
            "best_seconds": best[1].seconds if best else None,
            "default_seconds": default_seconds(best[1]) if best else None,
            "started": self.started if len(self.trials) else None,
            "ended": float(stamps.max()) if len(self.trials) else None,
            "devices": sorted({int(one) for one in np.unique(self.trials.column("device"))}),
        }


def default_seconds(result: MeasureResult) -> float | None:
    """Return the seconds of the default configuration in the race that a record won."""
    race = result.evidence.race
    return race.seconds_of(race.default) if race and race.default is not None else None


def _moments(end: float, stages: tuple[float, ...] | None) -> tuple[float, ...]:
    """Return when a trial was asked for, its build began and ended, and its run began."""
    known = [end - age for age in stages or ()]
    return (*known, *[math.nan] * (4 - len(known)))


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _label(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), default=str)
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 3]}..."
