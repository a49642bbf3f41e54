"""The trials of one workload that a view asks for, as one table over several runs."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.dashboard.downsampling import Places, thin
from autotune.dashboard.runs import Run
from autotune.dashboard.trials import NONE, Codes, Float
from autotune.dashboard.view import View


@dataclass(frozen=True)
class Knob:
    """A knob over all runs of a workload.

    Attributes:
        name: of the knob.
        labels: its values as the logs have them, numbers and lists of numbers by size.
        codes: the number of its value for each trial; `NONE` where a trial has none.
        whole: of a label that stands for a longer value, that.
    """

    name: str
    labels: Sequence[str]
    codes: Codes
    whole: Mapping[str, str] = field(default_factory=dict)

    def value(self, code: int) -> str:
        """Return the value of a number in full."""
        label = self.labels[code]
        return self.whole.get(label, label)


class Selection:
    """Trials of some runs, one run behind the other, and which of them a view wants.

    Args:
        runs: all of one workload.
        view: see there.
    """

    def __init__(self, runs: Sequence[Run], view: View) -> None:
        self.runs = runs
        self.view = view
        self.run: npt.NDArray[np.int32] = np.repeat(
            np.arange(len(runs), dtype=np.int32), [len(one.trials) for one in runs]
        )
        self.number = self._joined([np.arange(1, len(one.trials) + 1) for one in runs])

    def field(self, name: str) -> Float:
        """Return a field of all trials."""
        return self._joined([one.trials.column(name) for one in self.runs])

    @cached_property
    def time(self) -> Float:
        """Seconds from the begin of its run to the end of each trial."""
        return self._joined([one.since_start() for one in self.runs])

    @cached_property
    def text(self) -> npt.NDArray[np.int64]:
        """The number of what went wrong, different for each run and text; negative if nothing."""
        starts = np.cumsum([0, *(len(one.messages.texts) for one in self.runs)])
        codes = [one.trials.column("message") for one in self.runs]
        found = [np.where(c < 0, NONE, c + starts[i]) for i, c in enumerate(codes)]
        return self._joined(found).astype(np.int64)

    @cached_property
    def knobs(self) -> list[Knob]:
        """All knobs, in the order in which the runs met them."""
        names = dict.fromkeys(name for one in self.runs for name in one.trials.knobs)
        return [self._knob(name) for name in names]

    @cached_property
    def wanted(self) -> Places:
        """The places of the trials that pass all filters."""
        view = self.view
        mask = np.ones(len(self.run), dtype=bool)
        if view.runs is not None:
            ids = np.array([one.number in view.runs for one in self.runs], dtype=bool)
            mask &= ids[self.run]
        for name, wanted in (("device", view.devices), ("error", view.errors)):
            if wanted is not None:
                mask &= np.isin(self.field(name), list(wanted))
        if view.timed:
            seconds = self.field("seconds")
            low, high = view.seconds
            mask &= ~np.isfinite(seconds) | ((seconds >= low) & (seconds <= high))
        for knob in self.knobs:
            values, without = view.knobs.get(knob.name), view.without.get(knob.name)
            if values is not None:
                mask &= np.isin(knob.codes, _codes_of(knob, values))
            if without:
                mask &= ~np.isin(knob.codes, _codes_of(knob, without))
        return np.flatnonzero(mask)

    @cached_property
    def shown(self) -> Places:
        """The places of the trials that charts show: those wanted, thinned; see `thin`."""
        places = self.wanted
        seconds, run, text = self.field("seconds"), self.run, self.text
        kept = thin(seconds[places], run[places], text[places], self.view.points)
        return places[kept]

    def _knob(self, name: str) -> Knob:
        labels: dict[str, int] = {}
        whole: dict[str, str] = {}
        parts = []
        for one in self.runs:
            codes = one.trials.choices(name)
            place = one.trials.knobs.get(name)
            texts = one.trials.labels[place].texts if place is not None else []
            whole |= one.trials.labels[place].whole if place is not None else {}
            joined = [labels.setdefault(text, len(labels)) for text in texts]
            parts.append(np.array([*joined, NONE], dtype=np.int32)[codes])
        order = sorted(labels, key=_by_size)
        rank = np.full(len(labels) + 1, NONE, dtype=np.int32)
        for position, label in enumerate(order):
            rank[labels[label]] = position
        codes = self._joined(parts).astype(np.int32)
        return Knob(name, order, rank[codes], whole)

    def _joined(self, parts: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return np.concatenate(parts) if parts else np.empty(0)


def _codes_of(knob: Knob, labels: Container[str]) -> list[int]:
    return [i for i, label in enumerate(knob.labels) if label in labels]


def _by_size(label: str) -> tuple[int, list[float], str]:
    """Sort numbers and lists of numbers by size, and anything else as text."""
    try:
        value = json.loads(label)
    except ValueError:
        return 1, [], label
    values = value if isinstance(value, list) else [value]
    if values and all(isinstance(one, (int, float)) for one in values):
        return 0, [float(one) if abs(one) < 1e300 else 0.0 for one in values], label
    return 1, [], label
