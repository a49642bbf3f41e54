"""The trials of one workload on one target in one log, and the best of them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from autotune.dashboard.json_arrays import real
from autotune.dashboard.lines import LogEntry, Name, choices_of
from autotune.dashboard.trials import NONE, Float, Labels, Trials
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record.best import beats

_LONGEST_LABEL = 200
# Seconds without a trial under way after which a run was stopped and resumed.
PAUSE_S = 300.0


class Run:
    """One run: what one log has of one workload on one target.

    Args:
        number: of the run among all.
        log: number of its log.
        target: as the log has it.
        name: what was tuned.

    Attributes:
        trials: the columns.
        best: the record that is replayed, see `autotune.record.best_of`; None before one works.
        best_line: where it is.
        best_trial: the trial of that configuration; 0 where none of this log is.
        messages: the errors, as they were raised.
        roof: of the last trial that says it, see `Evidence.roof`.
    """

    def __init__(self, number: int, log: int, target: str, name: Name) -> None:
        self.number, self.log, self.target, self.name = number, log, target, name
        self.trials = Trials()
        self.messages = Labels()
        self.best: Pair | None = None
        self.best_line = self.best_trial = 0
        self.roof: tuple[float, ...] | None = None
        self._summary: tuple[tuple[int, int], dict[str, object]] | None = None
        self._paused: tuple[Float, int] = np.empty(0), 0
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
                self.best_trial = self._trial_of(inp.key) if trial.race else len(self.trials) + 1
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
            _number(resources.get("spill_bytes")), _number(result.joules),
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
                code = _code_of(plain, self.trials.labels[place])
                known = same, (place, code)
                if same is not None:
                    met[id(same)] = known
            found.append(known[1])
        return found

    def _trial_of(self, key: str) -> int:
        """Return the number of the last trial of a candidate; 0 of one that was no trial."""
        keys = self.trials.keys
        return next((i + 1 for i in range(len(keys) - 1, -1, -1) if keys[i] == key), 0)

    @property
    def started(self) -> float:
        """The time of the first request of a trial, as the log shows it; NaN without one."""
        if not len(self.trials):
            return math.nan
        return float(np.nanmin(self._begins()))

    def _begins(self) -> Float:
        """Return when each trial was asked for, as near as the log tells."""
        began = self.trials.column("timestamp") - self.trials.column("all_cost")
        return np.fmin(began, self.trials.column("asked"))

    def _pauses(self) -> tuple[Float, int]:
        """Return for each trial the seconds before it in which nothing went on, and the pauses.

        A run that was stopped and resumed has none of its trials under way in between.
        """
        if len(self._paused[0]) == len(self.trials):
            return self._paused
        begins = self._begins()
        order = np.argsort(begins, kind="stable")
        ends = np.maximum.accumulate(self.trials.column("timestamp")[order])
        gaps = np.zeros(len(order))
        gaps[1:] = begins[order][1:] - ends[:-1]
        gaps[~(gaps > PAUSE_S)] = 0
        before = np.empty(len(order))
        before[order] = np.cumsum(gaps)
        self._paused = before, int(np.count_nonzero(gaps))
        return self._paused

    def since_start(self) -> Float:
        """Return seconds from the begin of the run to the end of each trial, without pauses."""
        return self.trials.column("timestamp") - self.started - self._pauses()[0]

    def summary(self) -> dict[str, Any]:
        """Return the run in a few numbers, worked out when there is another trial or best."""
        state = len(self.trials), self.best_line
        if self._summary is None or self._summary[0] != state:
            self._summary = state, self._summed()
        return self._summary[1]

    def _summed(self) -> dict[str, object]:
        error = self.trials.column("error")
        stamps = self.trials.column("timestamp")
        best, spent = self.best, self.since_start()
        return {
            "id": self.number,
            "log": self.log,
            "target": self.target,
            "trials": len(self.trials),
            "ok": int((error == 0).sum()),
            "best_seconds": best[1].seconds if best else None,
            "best_trial": self.best_trial or None,
            "default_seconds": default_seconds(best[1]) if best else None,
            "spent": real(float(np.nanmax(spent))) if len(spent) else None,
            "pauses": self._pauses()[1] if len(spent) else 0,
            "started": self.started if len(self.trials) else None,
            "ended": float(stamps.max()) if len(self.trials) else None,
            "devices": sorted({int(one) for one in np.unique(self.trials.column("device"))}),
        }


def default_seconds(result: MeasureResult) -> float | None:
    """Return the seconds of the default configuration, as the record of a race's winner says."""
    race = result.evidence.race
    return race.default_seconds if race else None


def _moments(end: float, stages: tuple[float, ...] | None) -> tuple[float, ...]:
    """Return when a trial was asked for, its build began and ended, and its run began."""
    known = [end - age for age in stages or ()]
    return (*known, *[math.nan] * (4 - len(known)))


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _code_of(value: object, labels: Labels) -> int:
    """Return the number of a value; a long one is shown by its begin and a hash of the rest."""
    text = json.dumps(value, separators=(",", ":"), default=str)
    if len(text) <= _LONGEST_LABEL:
        return labels.code(text)
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    short = f"{text[:_LONGEST_LABEL]}... #{digest}"
    labels.whole.setdefault(short, text)
    return labels.code(short)
