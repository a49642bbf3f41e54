"""One program of a task, as its search knows it: closed forms, and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.forms import Forms
from autotune.auto_scheduler.search.kin import Kind
from autotune.auto_scheduler.search.program import Program, Rows
from autotune.auto_scheduler.search.sampler import Limits, Sampler

Row = npt.NDArray[np.int64]
# How often new rows are looked for where there are rows of the last time.
_FRESH_TRIES = 2


class ClosedForms(Protocol):
    """Says of rows of one program what is possible, and what it would take."""

    program: Program

    @property
    def tiles(self) -> bool:
        """Whether a stage is tiled, so that other tiled programs say something of it."""
        ...

    def __call__(self, rows: Rows) -> Forms:
        """Return the closed forms of rows."""
        ...

    def limits(self) -> Limits:
        """Return what rows have to keep."""
        ...


@dataclass
class Arm:
    """One program with what was measured of it.

    Attributes:
        forms: its closed forms.
        sampler: draws its rows.
        seen: rows that were proposed or measured.
        rows: that were measured.
        seconds: of each; infinite where it failed.
        pool: rows that were drawn the last time.
    """

    forms: ClosedForms
    sampler: Sampler
    seen: set[bytes] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    pool: Rows | None = None
    _kind: Kind | None = None
    _measured: set[bytes] = field(default_factory=set)

    @property
    def program(self) -> Program:
        """The program."""
        return self.forms.program

    @property
    def kind(self) -> Kind:
        """Of which kind the program is."""
        self._kind = self._kind or Kind(self.program)
        return self._kind

    def drawn(self, count: int) -> Rows:
        """Return feasible rows at random: those of the last time, a quarter of them new."""
        fresh = (
            self.sampler.draw(count)
            if self.pool is None
            else self.sampler.draw(count // 4, _FRESH_TRIES)
        )
        old = fresh[:0] if self.pool is None else self.pool[: count - len(fresh)]
        self.pool = np.concatenate([fresh, old])
        return self.pool

    def measured(self, row: Row, seconds: float) -> bool:
        """Take note of a trial, and return whether it was not known yet."""
        name = row.tobytes()
        if name in self._measured:
            return False
        self._measured.add(name)
        self.seen.add(name)
        self.rows.append(row)
        self.seconds.append(seconds)
        return True

    def best(self, count: int) -> Rows:
        """Return the fastest rows that were measured, fastest first."""
        order = np.argsort(self.seconds, kind="stable")[:count]
        return self.stacked([self.rows[i] for i in order if np.isfinite(self.seconds[i])])

    def stacked(self, rows: Sequence[Row]) -> Rows:
        """Return rows as a matrix, also where there are none."""
        return np.array(rows, np.int64).reshape(len(rows), self.program.width)
