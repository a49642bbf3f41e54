"""How large the evolutionary search for a batch is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

# Proposals of a batch for which all of an effort is made, and the least part that is made of it.
_WHOLE_BATCH, _LEAST_PART = 64, 0.25


@dataclass(frozen=True)
class Effort:
    """The size of the evolutionary search for a batch of 64; smaller batches take less effort.

    Attributes:
        population: number of new random rows, over all programs.
        generations: how often the best rows are mutated and crossed for the first batch; half as
            often for later batches, which start from the best rows of the previous one.
        survivors: number of rows that enter the next generation.
        elites: number of measured rows that take part.
        near: share of a batch for neighbours of the best measured rows.
        bold: share of a batch for rows with the most uncertain times.
        alike: the most rows of a batch that differ only in choices.
        equal: share of rows of one program and one estimate; three in any case.
        similar: share of the first batch for the fastest rows of similar tasks.
        estimated: share of the first batch for the best rows by the analytical estimate alone,
            since trials of other workloads may mislead.
    """

    population: int = 4096
    generations: int = 4
    survivors: int = 512
    elites: int = 32
    near: float = 0.2
    bold: float = 0.15
    alike: int = 2
    equal: float = 0.3
    similar: float = 0.15
    estimated: float = 0.5

    def of_batch(self, count: int) -> Effort:
        """Return the effort for a batch of this size."""
        part = min(max(count / _WHOLE_BATCH, _LEAST_PART), 1.0)
        population, survivors = (math.ceil(part * n) for n in (self.population, self.survivors))
        return replace(self, population=population, survivors=survivors)


def part_of(count: int, share: float) -> int:
    """Return how many of a batch a share is, rounded up."""
    return math.ceil(count * share)
