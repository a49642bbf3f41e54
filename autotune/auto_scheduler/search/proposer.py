"""Proposes what to try next for a task, from all of its programs, without lowering anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.recorded_state import RecordedState
from autotune.auto_scheduler.search.forms import Forms
from autotune.auto_scheduler.search.program import Program, Rows
from autotune.auto_scheduler.search.row_model import RowModel
from autotune.auto_scheduler.search.sampler import Limits, Sampler, distinct
from autotune.auto_scheduler.transform_steps import TransformStep
from autotune.cost_model import Trees

# How often new rows are looked for where there are rows of the last time.
_FRESH_TRIES = 2

Column = npt.NDArray[np.float64]
Row = npt.NDArray[np.int64]


class ClosedForms(Protocol):
    """Says of rows of one program what is possible, and what it would take."""

    program: Program

    def __call__(self, rows: Rows) -> Forms:
        """Return the closed forms of rows."""
        ...

    def limits(self) -> Limits:
        """Return what rows have to keep."""
        ...


@dataclass(frozen=True)
class Effort:
    """How much is looked at for one batch.

    Attributes:
        population: rows drawn afresh, over all programs.
        generations: times that the best are mutated and crossed.
        survivors: rows that go on to the next generation.
        elites: measured rows that take part.
        near: share of a batch for neighbours of the best measured rows.
        bold: share of a batch for rows whose time is least certain.
        alike: most rows of a batch that differ in choices only.
    """

    population: int = 4096
    generations: int = 4
    survivors: int = 512
    elites: int = 32
    near: float = 0.2
    bold: float = 0.15
    alike: int = 2


@dataclass
class _Arm:
    """One program with what was measured of it."""

    forms: ClosedForms
    sampler: Sampler
    seen: set[bytes] = field(default_factory=set)
    rows: list[Row] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    pool: Rows | None = None

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


@dataclass(frozen=True)
class _Pool:
    """Scored rows of one program."""

    arm: int
    rows: Rows
    scores: Column
    doubts: Column


class Proposer:
    """The search over the programs of a task.

    Args:
        forms: the closed forms of each program.
        rng: source of all randomness; equal seeds and equal results give equal proposals.
        effort: how much is looked at.
        ranks: whether rows are ranked; otherwise they are drawn at random.
        prior: corrects drafts as trials of other workloads say.
    """

    def __init__(
        self,
        forms: Sequence[ClosedForms],
        rng: np.random.Generator,
        effort: Effort | None = None,
        ranks: bool = True,
        prior: Trees | None = None,
    ) -> None:
        self.rng = rng
        self.effort = effort or Effort()
        self.ranks = ranks
        self.arms = [_Arm(each, Sampler(each.program, each.limits(), rng)) for each in forms]
        self.model = RowModel(int(rng.integers(2**31)), prior)
        # Steps that were proposed -> the program and the row that they are.
        self._known: dict[tuple[TransformStep, ...], tuple[int, Row]] = {}

    def propose(self, count: int) -> list[RecordedState]:
        """Return up to ``count`` candidates that were not proposed before, best first."""
        if not self.ranks:
            return self._taken(self._drawn(count))
        pools = self._evolved()
        near = self._pools(self._near())
        chosen = [
            *self._best(pools, count, 0.0),
            *self._best(near, int(np.ceil(count * self.effort.near)), 0.0),
            *self._best(pools, int(np.ceil(count * self.effort.bold)), 1.5),
        ]
        return self._taken(self._interleaved(chosen, count))

    def sample(self, count: int) -> list[RecordedState]:
        """Return feasible candidates at random; they may be proposed later."""
        order = self._drawn(count)
        return [self.arms[at].forms.program.candidate(row) for at, row in order]

    def learn(self, trials: Sequence[tuple[Sequence[TransformStep], float]]) -> None:
        """Take note of what was measured: the steps of a state, and its seconds.

        Seconds are infinite where a trial failed. Steps that are of none of the programs are
        passed over.
        """
        for steps, seconds in trials:
            found = self._found(tuple(steps))
            if found is not None:
                arm, row = self.arms[found[0]], found[1]
                arm.rows.append(row)
                arm.seconds.append(seconds)
                arm.seen.add(row.tobytes())
        self._fit()

    def scores(self, steps: Sequence[tuple[TransformStep, ...]]) -> list[float]:
        """Return the predicted logarithms of rates; -inf for steps of none of the programs."""
        result = []
        for each in steps:
            found = self._found(each)
            if found is None:
                result.append(-np.inf)
                continue
            forms = self.arms[found[0]].forms(found[1][None, :])
            drafts = np.where(forms.feasible, forms.seconds, 1.0)
            result.append(float(self.model.predict(forms.features, drafts)[0][0]))
        return result

    def bred(self, steps: Sequence[tuple[TransformStep, ...]]) -> list[RecordedState]:
        """Return the candidates of some steps, with mutants and crosses of them.

        Steps that are of none of the programs are passed over.
        """
        known = [found for each in steps if (found := self._found(each)) is not None]
        result = []
        for at, arm in enumerate(self.arms):
            rows = [row for number, row in known if number == at]
            parents = np.array(rows, np.int64).reshape(len(rows), arm.forms.program.width)
            result += [arm.forms.program.candidate(row) for row in self._bred(at, parents)]
        return result

    # ---- parts

    def _taken(self, order: Sequence[tuple[int, Row]]) -> list[RecordedState]:
        """Note rows as proposed, and return what they are."""
        found = []
        for at, row in order:
            self.arms[at].seen.add(row.tobytes())
            found.append(self.arms[at].forms.program.candidate(row))
            self._known[found[-1].transform_steps] = (at, row)
        return found

    def row_of(self, steps: Sequence[TransformStep]) -> tuple[int, Row] | None:
        """Return the program and the row that some steps are; None if there is no such."""
        return self._found(tuple(steps))

    def _found(self, steps: tuple[TransformStep, ...]) -> tuple[int, Row] | None:
        """Return the program and the row that some steps are; None if there is no such."""
        if steps in self._known:
            return self._known[steps]
        for at, arm in enumerate(self.arms):
            row = arm.forms.program.row_of(steps)
            if row is not None:
                return at, np.array(row, np.int64)
        return None

    def _drawn(self, count: int) -> list[tuple[int, Row]]:
        """Draw new rows of all programs, as many of each."""
        share = -(-count // max(len(self.arms), 1))
        found = [
            (at, row)
            for at, arm in enumerate(self.arms)
            for row in arm.sampler.draw(share + len(arm.seen))
            if row.tobytes() not in arm.seen
        ]
        return [found[i] for i in self.rng.permutation(len(found))[:count]]

    def _fit(self) -> None:
        features, drafts, seconds = [], [], []
        for arm in self.arms:
            if arm.rows:
                found = arm.forms(np.array(arm.rows))
                features.append(found.features)
                drafts.append(np.where(found.feasible, found.seconds, 1.0))
                seconds.append(np.array(arm.seconds))
        if features:
            self.model.fit(*map(np.concatenate, (features, drafts, seconds)))

    def _evolved(self) -> list[_Pool]:
        """Draw rows of all programs, and breed the best of them."""
        share = max(64, self.effort.population // max(len(self.arms), 1))
        rows = [np.concatenate([arm.drawn(share), self._elites(arm)]) for arm in self.arms]
        pools = self._pools(rows)
        for _ in range(self.effort.generations):
            parents = self._survivors(pools)
            pools = self._pools([self._bred(at, each) for at, each in enumerate(parents)])
        return pools

    def _survivors(self, pools: Sequence[_Pool]) -> list[Rows]:
        """Return the best rows of all programs, by program."""
        scores = np.concatenate([pool.scores for pool in pools])
        most = min(self.effort.survivors, len(scores))
        least = np.sort(scores)[-most] if most else 0.0
        return [pool.rows[pool.scores >= least] for pool in pools]

    def _bred(self, at: int, parents: Rows) -> Rows:
        """Return parents, mutants and crosses of one program, each once."""
        if not len(parents):
            return parents
        sampler = self.arms[at].sampler
        many = parents[self.rng.integers(len(parents), size=2 * self.effort.survivors)]
        other = parents[self.rng.integers(len(parents), size=len(many))]
        half = len(many) // 2
        children = [parents, sampler.mutate(many), sampler.cross(many[:half], other[:half])]
        return distinct(np.concatenate(children))

    def _elites(self, arm: _Arm) -> Rows:
        order = np.argsort(arm.seconds, kind="stable")[: self.effort.elites]
        good = [arm.rows[i] for i in order if np.isfinite(arm.seconds[i])]
        return np.array(good, np.int64).reshape(len(good), arm.forms.program.width)

    def _near(self) -> list[Rows]:
        """Return the neighbours of the fastest measured rows, by program."""
        best = sorted(
            (seconds, at, i)
            for at, arm in enumerate(self.arms)
            for i, seconds in enumerate(arm.seconds)
            if np.isfinite(seconds)
        )[:3]
        found: list[Rows] = [np.empty((0, arm.forms.program.width), np.int64) for arm in self.arms]
        for _, at, i in best:
            arm = self.arms[at]
            found[at] = np.concatenate([found[at], arm.sampler.neighbours(arm.rows[i])])
        return found

    def _pools(self, rows: Sequence[Rows]) -> list[_Pool]:
        """Score the feasible rows of all programs; the model is asked for all of them at once."""
        found = [(at, self.arms[at].forms(each)) for at, each in enumerate(rows) if len(each)]
        kept = [np.flatnonzero(forms.feasible) for _, forms in found]
        if not sum(map(len, kept)):
            return [_Pool(at, each[:0], np.empty(0), np.empty(0)) for at, each in enumerate(rows)]
        pairs = list(zip(found, kept, strict=True))
        features = np.concatenate([forms.features[which] for (_, forms), which in pairs])
        drafts = np.concatenate([forms.seconds[which] for (_, forms), which in pairs])
        scores, doubts = self.model.predict(features, drafts)
        ends = np.cumsum([len(which) for which in kept])[:-1]
        parts = zip(pairs, np.split(scores, ends), np.split(doubts, ends), strict=True)
        pools = {at: _Pool(at, rows[at][which], a, b) for ((at, _), which), a, b in parts}
        none = np.empty(0)
        return [pools.get(at, _Pool(at, each[:0], none, none)) for at, each in enumerate(rows)]

    def _best(
        self, pools: Sequence[_Pool], count: int, boldness: float
    ) -> list[tuple[float, int, Row]]:
        """Return the best new rows, few of which differ in choices alone."""
        entries = [
            (float(pool.scores[i] + boldness * pool.doubts[i]), pool.arm, pool.rows[i])
            for pool in pools
            for i in _top(pool.scores + boldness * pool.doubts, 4 * count + 16)
        ]
        entries.sort(key=lambda entry: -entry[0])
        kept: list[tuple[float, int, Row]] = []
        alike: dict[tuple[int, bytes], int] = {}
        for entry in entries:
            _, at, row = entry
            if row.tobytes() in self.arms[at].seen:
                continue
            tile = (at, self._tile(at, row))
            alike[tile] = alike.get(tile, 0) + 1
            if alike[tile] <= self.effort.alike:
                kept.append(entry)
            if len(kept) == count:
                break
        return kept

    def _tile(self, at: int, row: Row) -> bytes:
        """Return the part of a row that are lengths of splits of whole axes."""
        program = self.arms[at].forms.program
        wide = [i for slot in program.slots if slot.width > 1 for i in _span(program, slot.step)]
        return row[wide].tobytes() if wide else row.tobytes()

    def _interleaved(
        self, chosen: list[tuple[float, int, Row]], count: int
    ) -> list[tuple[int, Row]]:
        """Return each row once, neighbours and doubtful rows first, then the best."""
        few = int(np.ceil(count * self.effort.near)) + int(np.ceil(count * self.effort.bold))
        extra = chosen[-few:] if len(chosen) > count else []
        rest = chosen[: len(chosen) - len(extra)]
        seen: set[tuple[int, bytes]] = set()
        order = []
        for _, at, row in [*extra, *rest]:
            if (at, row.tobytes()) not in seen:
                seen.add((at, row.tobytes()))
                order.append((at, row))
        return order[:count]


def _span(program: Program, step: int) -> range:
    columns = program.columns[step]
    return range(columns.start, columns.stop)


def _top(scores: Column, count: int) -> npt.NDArray[np.intp]:
    """Return the places of the largest scores, largest first."""
    if len(scores) > count:
        part = np.argpartition(-scores, count)[:count]
        return np.asarray(part[np.argsort(-scores[part], kind="stable")])
    return np.asarray(np.argsort(-scores, kind="stable"))
