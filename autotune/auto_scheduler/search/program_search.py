"""The state of the search in one program of a task: its analytical cost model and its trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.analytical.estimates import Estimates
from autotune.auto_scheduler.search.space.program import Program, Rows
from autotune.auto_scheduler.search.space.sampler import RowLimits, RowSampler
from autotune.auto_scheduler.search.space.transfer import ProgramKind

Row = npt.NDArray[np.int64]
Column = npt.NDArray[np.float64]
Features = npt.NDArray[np.float32]


@dataclass(frozen=True)
class ProgramTrials:
    """Measured trials, one entry each.

    Attributes:
        features: columns that models learn from.
        estimates: seconds by the analytical model; 1 where it takes a row for infeasible.
        seconds: that were measured; infinite where a trial failed.
    """

    features: Features
    estimates: Column
    seconds: Column

    @property
    def columns(self) -> tuple[Features, Column, Column]:
        """The three of them, as models take them."""
        return self.features, self.estimates, self.seconds

    def since(self, start: int) -> ProgramTrials:
        """Return those after the first few."""
        return ProgramTrials(self.features[start:], self.estimates[start:], self.seconds[start:])

    @staticmethod
    def joined(parts: Sequence[ProgramTrials]) -> ProgramTrials:
        """Return the trials of several parts, which have the same columns."""
        columns = zip(*(each.columns for each in parts), strict=True)
        return ProgramTrials(*map(np.concatenate, columns))


class AnalyticalCostModel(Protocol):
    """An analytical cost model: which rows of a program are feasible, and estimated times."""

    program: Program

    @property
    def tiles(self) -> bool:
        """Whether a stage is tiled, so that other tiled programs say something of it."""
        ...

    def __call__(self, rows: Rows) -> Estimates:
        """Return the estimates of rows."""
        ...

    def limits(self) -> RowLimits:
        """Return the limits of feasible rows."""
        ...


@dataclass
class ProgramSearch:
    """One program with what was measured of it.

    Attributes:
        cost_model: its analytical cost model.
        sampler: draws its rows, where they are not drawn with those of others (`stack`).
        seen: rows that were proposed or measured.
        rows: that were measured.
        seconds: of each; infinite where it failed.
    """

    cost_model: AnalyticalCostModel
    sampler: RowSampler
    seen: set[bytes] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    _kind: ProgramKind | None = None
    _measured: set[bytes] = field(default_factory=set)
    _trials: ProgramTrials | None = None

    @property
    def program(self) -> Program:
        """The program."""
        return self.cost_model.program

    @property
    def kind(self) -> ProgramKind:
        """Of which kind the program is."""
        self._kind = self._kind or ProgramKind(self.program)
        return self._kind

    def measured(self, row: Row, seconds: float) -> bool:
        """Record a trial, and return whether it was not known yet."""
        name = row.tobytes()
        if name in self._measured:
            return False
        self._measured.add(name)
        self.seen.add(name)
        self.rows.append(row)
        self.seconds.append(seconds)
        return True

    def trials(self) -> ProgramTrials | None:
        """Return the measured trials, None if there are none; each row is estimated once."""
        count, known = len(self.seconds), self._trials
        start = 0 if known is None else len(known.seconds)
        if count > start:
            estimated = self.cost_model(self.stacked(self.rows[start:count]))
            estimates = np.where(estimated.feasible, estimated.seconds, 1.0)
            new = ProgramTrials(estimated.features, estimates, np.array(self.seconds[start:count]))
            self._trials = new if known is None else ProgramTrials.joined([known, new])
        return self._trials

    def best(self, count: int) -> Rows:
        """Return the fastest rows that were measured, fastest first."""
        order = np.argsort(self.seconds, kind="stable")[:count]
        return self.stacked([self.rows[i] for i in order if np.isfinite(self.seconds[i])])

    def stacked(self, rows: Sequence[Row]) -> Rows:
        """Return rows as a matrix, which may have no rows."""
        return np.array(rows, np.int64).reshape(len(rows), self.program.width)


def trials_of(
    programs: Sequence[ProgramSearch],
    described: Callable[[Features, bool], Features],
    since: Sequence[int] = (),
) -> ProgramTrials | None:
    """Return the trials of some programs; None if there are none.

    Args:
        programs: the programs.
        described: adds the other columns of a model, given whether a program has tiles.
        since: for each program, the number of trials, from the first, that are left out.
    """
    parts = []
    for searched, start in zip(programs, since or [0] * len(programs), strict=True):
        known = searched.trials()
        if known is not None and len(known.seconds) > start:
            new = known.since(start)
            parts.append(replace(new, features=described(new.features, searched.cost_model.tiles)))
    return ProgramTrials.joined(parts) if parts else None
