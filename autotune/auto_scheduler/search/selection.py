"""Chooses the rows of a batch from those that are scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.analytical.products import ProductCostModel
from autotune.auto_scheduler.search.analytical.several import SeveralCostModel
from autotune.auto_scheduler.search.effort import Effort, part_of
from autotune.auto_scheduler.search.program_search import ProgramSearch, Row
from autotune.auto_scheduler.search.space.program import FactorSlot, Rows
from autotune.auto_scheduler.search.stack import Stack

Column = npt.NDArray[np.float64]
# Rows of equal estimates that any part of a batch may have.
_EQUAL = 3


@dataclass(frozen=True)
class Pool:
    """Scored rows of one stack; ``estimated`` is the score by estimates alone."""

    stack: Stack
    rows: Rows
    scores: Column
    doubts: Column
    estimated: Column


class Selection:
    """Chooses among the rows of the programs of a task.

    Args:
        programs: of the task, with what was proposed of each.
        effort: the size of the search.
    """

    def __init__(self, programs: Sequence[ProgramSearch], effort: Effort) -> None:
        self.programs = programs
        self.effort = effort

    def best(
        self,
        pools: Sequence[Pool],
        count: int,
        boldness: float = 0.0,
        whole: bool = False,
        varied: bool = True,
    ) -> list[tuple[int, Row]]:
        """Return the best new rows, few of which differ in choices alone.

        Args:
            pools: scored rows.
            count: how many are wanted at most.
            boldness: weight of the uncertainty of a score.
            whole: whether few may differ in how the innermost two loops share what they do,
                either: estimates are then the same.
            varied: whether only a part may be rows of one program with one estimate: tiles that
                differ in which axes their loops are of.
        """
        entries = [
            (
                float(pool.scores[i] + boldness * pool.doubts[i]),
                *pool.stack.place(pool.rows[i]),
                float(pool.estimated[i]),
            )
            for pool in pools
            for i in _top(pool.scores + boldness * pool.doubts, 8 * count + 32)
        ]
        entries.sort(key=lambda entry: -entry[0])
        most = max(part_of(count, self.effort.equal), _EQUAL) if varied else count
        kept: list[tuple[int, Row]] = []
        alike: Counter[tuple[int, bytes]] = Counter()
        equal: Counter[tuple[int, float]] = Counter()
        for _, at, row, estimated in entries:
            if len(kept) == count:
                break
            if row.tobytes() in self.programs[at].seen or equal[at, estimated] == most:
                continue
            tile = (at, self._tile(at, row, whole))
            alike[tile] += 1
            if alike[tile] <= self.effort.alike:
                kept.append((at, row))
                equal[at, estimated] += 1
        return kept

    def _tile(self, at: int, row: Row, whole: bool) -> bytes:
        """Return the part of a row that are lengths of splits of whole axes."""
        model = self.programs[at].cost_model
        program = model.program
        # Of tiles of products, one number says how long the other side is.
        least = 1 if isinstance(model, ProductCostModel | SeveralCostModel) else 2
        splits = [
            slot.step
            for slot in program.slots
            if isinstance(slot, FactorSlot) and slot.width >= least
        ]
        spans = [row[program.columns[step]] for step in splits]
        if whole:
            spans = [np.append(each[:-2], each[-2:].prod()) for each in spans]
        return np.concatenate(spans).tobytes() if spans else row.tobytes()


def by_estimate(pools: Sequence[Pool]) -> list[Pool]:
    """Return pools scored by estimates alone."""
    return [replace(pool, scores=pool.estimated) for pool in pools]


def _top(scores: Column, count: int) -> npt.NDArray[np.intp]:
    """Return the places of the largest scores, largest first."""
    if len(scores) > count:
        part = np.argpartition(-scores, count)[:count]
        return np.asarray(part[np.argsort(-scores[part], kind="stable")])
    return np.asarray(np.argsort(-scores, kind="stable"))
