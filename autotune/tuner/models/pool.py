"""The candidates and trials of the model of `XGBTuner`, one column a feature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from autotune.task.constraints.constraint import BoolArray
from autotune.task.constraints.radix import IndexArray

Float = npt.NDArray[np.float64]
Columns = TypeVar("Columns", "Conditions", "CandidatePool")


def join_columns(first: Columns, more: Columns) -> Columns:
    """Returns the rows of ``first`` followed by those of ``more``."""
    names = [each.name for each in fields(first)]
    both = [np.concatenate([getattr(first, name), getattr(more, name)]) for name in names]
    return replace(first, **dict(zip(names, both, strict=True)))


@dataclass(frozen=True, eq=False)
class Conditions:
    """The trials on which the Gaussian process is conditioned, one row each.

    Attributes:
        indices: indices in the space.
        values: raw values of the knobs, one column each.
        prior: the prediction from earlier records, weighted by the trust in them.
    """

    indices: IndexArray
    values: Float
    prior: Float

    def absent(self, indices: Sequence[int]) -> list[int]:
        """Returns those of some points that are not among the rows."""
        known = set(self.indices.tolist())
        return [index for index in indices if index not in known]


@dataclass(frozen=True, eq=False)
class CandidatePool:
    """Candidates, one row each.

    Attributes:
        indices: indices in the space.
        values: raw values of the knobs, one column each.
        prior: the prediction from earlier records, weighted by the trust in them.
        feasibility: logarithm of the probability to run, multiplied by a factor for caution.
        correction: what the trees on features of loops add to the expectation.
        expected: expected standardised logarithmic rate; NaN until `Surrogate.expect`.
        is_open: whether the candidate was not proposed yet.
    """

    indices: IndexArray
    values: Float
    prior: Float
    feasibility: Float
    correction: Float
    expected: Float
    is_open: BoolArray

    @staticmethod
    def fresh(
        indices: IndexArray, values: Float, prior: Float, feasibility: Float
    ) -> CandidatePool:
        """Returns candidates that nothing is expected of yet, all open."""
        count = len(indices)
        blank, unknown = np.zeros(count), np.full(count, np.nan)
        is_open = np.ones(count, dtype=np.bool_)
        return CandidatePool(indices, values, prior, feasibility, blank, unknown, is_open)

    def without(self, position: int) -> CandidatePool:
        """Returns the pool in which one candidate is not open any more."""
        is_open = self.is_open.copy()
        is_open[position] = False
        return replace(self, is_open=is_open)

    def corrected(self, positions: npt.NDArray[np.intp], by: Float) -> CandidatePool:
        """Returns the pool in which something is added to the correction of some candidates."""
        correction = self.correction.copy()
        correction[positions] += by
        return replace(self, correction=correction)
