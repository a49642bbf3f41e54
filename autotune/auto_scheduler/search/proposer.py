"""Evolutionary search over all programs of a task: proposes batches without lowering anything."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.effort import Effort, part_of
from autotune.auto_scheduler.search.models.descriptor import Descriptor
from autotune.auto_scheduler.search.models.row_model import Features, RowModel
from autotune.auto_scheduler.search.program_search import (
    AnalyticalCostModel,
    ProgramSearch,
    Row,
    trials_of,
)
from autotune.auto_scheduler.search.selection import Pool, Selection, by_estimate
from autotune.auto_scheduler.search.space.program import Rows
from autotune.auto_scheduler.search.space.sampler import RowSampler, distinct
from autotune.auto_scheduler.search.stack import Stack, stacks_of
from autotune.auto_scheduler.search.task_group import GroupMember, TaskGroup
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.auto_scheduler.transform_steps import TransformStep
from autotune.cost_model import load_meanwhile
from autotune.utils.math import ceil_div

Column = npt.NDArray[np.float64]


class Proposer:
    """The search over the programs of a task.

    Args:
        cost_models: the analytical cost model of each program.
        rng: source of all randomness; equal seeds and equal results give equal proposals.
        effort: the size of the search.
        ranks: whether rows are ranked; otherwise they are drawn at random.
        membership: the tasks that share their trials, with the key and the descriptor of this one.
    """

    def __init__(
        self,
        cost_models: Sequence[AnalyticalCostModel],
        rng: np.random.Generator,
        effort: Effort | None = None,
        ranks: bool = True,
        membership: tuple[TaskGroup, str, Descriptor] | None = None,
    ) -> None:
        self.rng = rng
        self.effort = effort or Effort()
        self.ranks = ranks
        self.programs = [
            ProgramSearch(each, RowSampler(each.program, each.limits(), rng))
            for each in cost_models
        ]
        self.selection = Selection(self.programs, self.effort)
        common = None if membership is None else membership[0].model
        self.stacks = stacks_of(cost_models, rng)
        # The best rows of the last batch, by stack.
        self._best_rows = [stack.rows_of([]) for stack in self.stacks]
        self.model = RowModel(int(rng.integers(2**31)), common)
        self.member: GroupMember | None = None
        if membership is not None:
            group, key, descriptor = membership
            self.member = group.join(key, descriptor, self.programs, self.model)
        # How many trials the model has learned.
        self._learned = 0
        # Steps that were proposed or asked for -> the program and the row that they are.
        self._known: dict[tuple[TransformStep, ...], tuple[int, Row]] = {}

    def propose(self, count: int) -> list[RecordedState]:
        """Return up to ``count`` candidates that were not proposed before, best first."""
        if not self.ranks:
            return self._taken(self._drawn(count))
        busy = bool(self._known)  # what was proposed before is being measured
        self._catch_up()
        drawn, plain, pools = self._evolved(self._effort_of(count))
        best, parts = self.selection.best, [*self._first(plain, pools, count)]
        parts += best(self._pools(self._near()), part_of(count, self.effort.near))
        parts += best(pools, part_of(count, self.effort.bold), 1.5)
        parts += best(pools, count)
        # Where what evolved differs in choices alone, or few rows are left, of equal estimates.
        parts += best(drawn, count, varied=False) + best(pools, count, varied=False)
        each_once = {(at, row.tobytes()): (at, row) for at, row in parts}
        taken = self._taken(list(each_once.values())[:count])
        if busy:
            load_meanwhile()
        return taken

    def sample(self, count: int) -> list[RecordedState]:
        """Return feasible candidates at random; they may be proposed later."""
        order = self._drawn(count)
        return [self.programs[at].cost_model.program.candidate(row) for at, row in order]

    def learn(self, trials: Sequence[tuple[Sequence[TransformStep], float]]) -> None:
        """Record what was measured: the steps of a state, and its seconds; each once.

        Seconds are infinite where a trial failed. Steps that are of none of the programs are
        passed over. Models are fitted when they are asked next: results come one by one, and
        proposals are made for many trials.
        """
        if self.ranks:
            load_meanwhile()
        for steps, seconds in trials:
            found = self._found(tuple(steps))
            if found is not None:
                self.programs[found[0]].measured(found[1], seconds)

    def scores(self, steps: Sequence[tuple[TransformStep, ...]]) -> list[float | None]:
        """Return the predicted logarithms of rates of some states.

        They are -inf where a limit of the device is broken, None for steps of no program.
        """
        self._catch_up()
        places = [self._found(each) for each in steps]
        result: list[float | None] = [None] * len(steps)
        for at, searched in enumerate(self.programs):
            own = [(i, place[1]) for i, place in enumerate(places) if place and place[0] == at]
            if own:
                estimated = searched.cost_model(searched.stacked([row for _, row in own]))
                estimates = np.where(estimated.feasible, estimated.seconds, 1.0)
                columns = self._columns(estimated.features, searched.cost_model.tiles)
                found = self.model.predict(columns, estimates)[0]
                for (i, _), score, fits in zip(own, found, estimated.feasible, strict=True):
                    result[i] = float(score) if fits else -np.inf
        return result

    def bred(self, steps: Sequence[tuple[TransformStep, ...]]) -> list[RecordedState]:
        """Return the candidates of some steps, with mutants and crosses of them.

        Steps that are of none of the programs are passed over.
        """
        known = [found for each in steps if (found := self._found(each)) is not None]
        result = []
        for stack in self.stacks:
            children = self._bred(stack, stack.rows_of(known), self.effort.survivors)
            places = [stack.place(row) for row in stack.sampler.kept(children)]
            result += [self.programs[at].cost_model.program.candidate(row) for at, row in places]
        return result

    # ---- parts

    def _taken(self, order: Sequence[tuple[int, Row]]) -> list[RecordedState]:
        """Note rows as proposed, and return what they are."""
        found = []
        for at, row in order:
            self.programs[at].seen.add(row.tobytes())
            found.append(self.programs[at].cost_model.program.candidate(row))
            self._known[found[-1].transform_steps] = (at, row)
        return found

    def row_of(self, steps: Sequence[TransformStep]) -> tuple[int, Row] | None:
        """Return the program and the row that some steps are; None if there is no such."""
        return self._found(tuple(steps))

    def _found(self, steps: tuple[TransformStep, ...]) -> tuple[int, Row] | None:
        """Return the program and the row that some steps are; None if there is no such."""
        if steps in self._known:
            return self._known[steps]
        for at, searched in enumerate(self.programs):
            row = searched.cost_model.program.row_of(steps)
            if row is not None:
                self._known[steps] = at, np.array(row, np.int64)
                return self._known[steps]
        return None

    def _drawn(self, count: int) -> list[tuple[int, Row]]:
        """Draw new rows of all programs, as many of each."""
        share = ceil_div(count, max(len(self.programs), 1))
        found = [
            (at, row)
            for at, searched in enumerate(self.programs)
            for row in searched.sampler.draw(share + len(searched.seen))
            if row.tobytes() not in searched.seen
        ]
        return [found[i] for i in self.rng.permutation(len(found))[:count]]

    def _columns(self, features: Features, tiles: bool) -> Features:
        """Return features of rows of one program with those of the task that models learn from."""
        return features if self.member is None else self.member.described(features, tiles)

    def _catch_up(self) -> None:
        """Let the models learn what this task, and those that teach it, measured meanwhile."""
        if self.member is not None:
            self.member.group.catch_up()
        count = sum(len(searched.seconds) for searched in self.programs)
        known = trials_of(self.programs, self._columns) if count > self._learned else None
        if known is not None:
            self.model.fit(*known.columns)
        self._learned = count

    def _evolved(self, effort: Effort) -> tuple[list[Pool], list[Pool], list[Pool]]:
        """Draw rows of all programs, and breed the best of them; return both.

        Between them are those that a first batch breeds by estimates, sparing a generation.
        """
        share = max(64, effort.population // max(len(self.programs), 1))
        others = self._elites(effort.elites) + self._from_similar_tasks()
        rows = [
            np.concatenate([stack.drawn(share * len(stack.members)), known, stack.rows_of(others)])
            for stack, known in zip(self.stacks, self._best_rows, strict=True)
        ]
        drawn = pools = self._pools(rows)
        again = any(map(len, self._best_rows))
        plain = self._bred_by_estimate(drawn, effort) if self._breeds_by_estimate else []
        others_bred = self._survivors(plain, ceil_div(effort.survivors, 2))
        generations = math.ceil(effort.generations / (1 + again)) - bool(plain)
        for number in range(max(generations, 1)):
            parents = self._survivors(pools, effort.survivors)
            if plain and not number:
                both = zip(parents, others_bred, strict=True)
                parents = [distinct(np.concatenate(each)) for each in both]
            pools = self._pools(
                [
                    self._bred(stack, each, effort.survivors)
                    for stack, each in zip(self.stacks, parents, strict=True)
                ]
            )
        self._best_rows = self._survivors(pools, effort.survivors)
        return drawn, plain, pools

    def _elites(self, count: int) -> list[tuple[int, Row]]:
        """Return the fastest measured rows, a limited number of each program."""
        return [
            (at, row) for at, searched in enumerate(self.programs) for row in searched.best(count)
        ]

    def _survivors(self, pools: Sequence[Pool], count: int) -> list[Rows]:
        """Return the best rows of all programs, by stack."""
        scores = np.concatenate([np.empty(0), *(pool.scores for pool in pools)])
        most = min(count, len(scores))
        least = np.sort(scores)[-most] if most else 0.0
        best = {id(pool.stack): pool.rows[pool.scores >= least] for pool in pools}
        return [best.get(id(stack), stack.rows_of([])) for stack in self.stacks]

    def _bred(self, stack: Stack, parents: Rows, survivors: int) -> Rows:
        """Return parents, mutants and crosses of one stack, each once; some break limits."""
        if not len(parents):
            return parents
        sampler = stack.sampler
        many = parents[self.rng.integers(len(parents), size=2 * survivors * len(stack.members))]
        other = parents[self.rng.integers(len(parents), size=len(many))]
        half = len(many) // 2
        children = [sampler.mutate(many), sampler.cross(many[:half], other[:half])]
        repaired = sampler.limits.repair(np.concatenate(children))
        return distinct(np.concatenate([parents, repaired]))

    def _from_similar_tasks(self) -> list[tuple[int, Row]]:
        """Return the fastest rows of similar tasks that were not proposed yet."""
        known = [] if self.member is None else self.member.elites()
        return [(at, row) for at, row in known if row.tobytes() not in self.programs[at].seen]

    def _first(
        self, plain: Sequence[Pool], pools: Sequence[Pool], count: int
    ) -> list[tuple[int, Row]]:
        """Return the rows of the first batch that are tried whatever the models say."""
        if not self._is_first:
            return []
        similar = self._from_similar_tasks()[: part_of(count, self.effort.similar)]
        half = part_of(count, self.effort.estimated)
        bred = self.selection.best(plain, ceil_div(half, 2), whole=True)
        return similar + bred + self.selection.best(by_estimate(pools), half - len(bred))

    def _effort_of(self, count: int) -> Effort:
        """Return the effort for a batch; the first one, which later ones begin with, takes all."""
        return self.effort if self._is_first else self.effort.of_batch(count)

    @property
    def _is_first(self) -> bool:
        """Whether nothing was measured, but trials of other workloads say something."""
        return self.member is not None and not any(each.rows for each in self.programs)

    @property
    def _breeds_by_estimate(self) -> bool:
        """Whether rows are bred by estimates, too; they are right of large kernels."""
        return self._is_first and all(stack.is_large for stack in self.stacks)

    def _bred_by_estimate(self, drawn: Sequence[Pool], effort: Effort) -> list[Pool]:
        """Breed rows as if only estimates were known: half as many, for half of a batch."""
        survivors, pools = ceil_div(effort.survivors, 2), by_estimate(drawn)
        for _ in range(effort.generations):
            parents = self._survivors(pools, survivors)
            pools = []
            for stack, each in zip(self.stacks, parents, strict=True):
                rows = self._bred(stack, each, survivors)
                found = stack.cost_model(rows)
                scores = -np.log2(found.seconds[found.feasible])
                own = rows[found.feasible]
                pools.append(Pool(stack, own, scores, np.zeros_like(scores), scores))
        return pools

    def _near(self) -> list[Rows]:
        """Return the neighbours of the fastest measured rows, by stack."""
        best = sorted(
            (seconds, at, i)
            for at, searched in enumerate(self.programs)
            for i, seconds in enumerate(searched.seconds)
            if np.isfinite(seconds)
        )[:3]
        found = []
        for stack in self.stacks:
            rows = stack.rows_of([(at, self.programs[at].rows[i]) for _, at, i in best])
            near = [rows[:0], *(stack.sampler.neighbours(row) for row in rows)]
            found.append(stack.limits.repair(np.concatenate(near)))
        return found

    def _pools(self, rows: Sequence[Rows]) -> list[Pool]:
        """Score the feasible rows of all programs; the model is asked for all of them at once."""
        found = [
            (stack, each, stack.cost_model(each))
            for stack, each in zip(self.stacks, rows, strict=True)
            if len(each)
        ]
        kept = [np.flatnonzero(estimated.feasible) for _, _, estimated in found]
        if not sum(map(len, kept)):
            return []
        features = [
            self._columns(estimated.features[which], stack.tiles)
            for (stack, _, estimated), which in zip(found, kept, strict=True)
        ]
        estimates = np.concatenate(
            [
                estimated.seconds[which]
                for (_, _, estimated), which in zip(found, kept, strict=True)
            ]
        )
        scores, doubts = self.model.predict(np.concatenate(features), estimates)
        ends = np.cumsum([len(which) for which in kept])[:-1]
        columns = [np.split(each, ends) for each in (scores, doubts, -np.log2(estimates))]
        return [
            Pool(stack, each[which], *own)
            for (stack, each, _), which, *own in zip(found, kept, *columns, strict=True)
        ]
