"""Features of a workload, which all its trials share: columns for a model of many workloads."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.ir import IterVar
from autotune.te.relation import extent_of
from autotune.te.tensor import ComputeOp

Descriptor = npt.NDArray[np.float32]
# Extents of the largest operation, innermost first: data axes, and reduced ones.
_DATA, _REDUCED = 4, 3
COLUMNS = 7 + _DATA + _REDUCED


def described(task: SearchProblem) -> Descriptor:
    """Return the descriptor of a workload: logarithms to base 2 of sizes, `COLUMNS` of them.

    They are the operations, the bytes and the operations a byte of the whole; of the operation
    that has the most iterations its results, the terms of each, its inputs, and its extents; and
    the number of operations in the graph.
    """
    ops = [op for op in task.compute_dag.ops if isinstance(op, ComputeOp)]
    largest = max(ops, key=lambda op: prod(_extents((*op.axis, *op.reduce_axis))))
    data, reduced = _extents(largest.axis)[::-1], _extents(largest.reduce_axis)[::-1]
    values = [task.flop, task.bytes, task.flop / max(task.bytes, 1.0)]
    values += [prod(data), prod(reduced), len(reads_of(largest)), len(ops)]
    values += _padded(data, _DATA) + _padded(reduced, _REDUCED)
    return np.log2(np.array(values, np.float64) + 1.0).astype(np.float32)


def _extents(axes: Iterable[IterVar]) -> list[int]:
    return [extent_of(axis) or 1 for axis in axes]


def _padded(extents: list[int], count: int) -> list[int]:
    return (extents + [0] * count)[:count]
