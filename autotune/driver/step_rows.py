"""Steps of a schedule in the form from which hashes in logs are computed.

This form names stages by their positions at the time, and splits each loop into two. Since
existing logs contain such hashes, it must not change, even if `autotune.te.step` does.
"""

from __future__ import annotations

from math import prod

from autotune.te import Schedule, post_order
from autotune.te.reindex import VIEW
from autotune.te.rewrite import PERMUTED
from autotune.te.step import (
    CacheRead,
    CacheWrite,
    ComputeAt,
    Normalize,
    Permute,
    Plain,
    Prefetch,
    Reindex,
    Rfactor,
    Split,
    Step,
    derived_key,
)

Row = list[Plain]


def binary_rows(schedule: Schedule) -> list[Row]:
    """Returns the steps of a schedule, one or more rows each."""
    order = [str(i) for i in range(len(post_order(schedule.outputs)))]
    rows: list[Row] = []
    for step in schedule.steps:
        rows += _rows(step, order)
        _add_stage(step, order)
    return rows


def _rows(step: Step, order: list[str]) -> list[Row]:
    at = 0 if isinstance(step, Normalize) else order.index(step.stage)
    match step:
        case Split():
            return [[step.tag, at, *split] for split in _splits(step)]
        case ComputeAt(_, target, axis):
            return [[step.tag, at, order.index(target), axis]]
        case CacheRead(_, output, scope, readers):
            return [[step.tag, at, output, scope, [order.index(key) for key in readers]]]
        case Permute(_, output, axes, readers):
            return [[step.tag, at, output, list(axes), [order.index(key) for key in readers]]]
        case Prefetch(_, axis, source, output, offset):
            return [[step.tag, at, axis, order.index(source), output, offset]]
        case Reindex(_, output, reader, groups):
            return [[step.tag, at, output, order.index(reader), groups]]
        case _:
            return [[step.tag, at, *step.to_json()[2:]]]


def _splits(step: Split) -> list[tuple[int, int, int]]:
    """Returns axis, factor and nparts of each split in two; the one not given is 0."""
    factors = [factor for factor in step.factors if factor is not None]
    if step.from_inner:
        return [(step.axis + i, prod(factors[i:]), 0) for i in range(len(factors))]
    return [(step.axis + i, 0, factor) for i, factor in enumerate(factors)]


def _add_stage(step: Step, order: list[str]) -> None:
    """Adds the stage that a step makes, where it makes one."""
    match step:
        case CacheRead(stage, _, scope):
            order.insert(order.index(stage) + 1, derived_key(order, stage, scope))
        case Permute(stage):
            order.insert(order.index(stage) + 1, derived_key(order, stage, PERMUTED))
        case Reindex(stage):
            order.insert(order.index(stage) + 1, derived_key(order, stage, VIEW))
        case CacheWrite(stage, scope):
            order.insert(order.index(stage), derived_key(order, stage, scope))
        case Rfactor(stage):
            order.insert(order.index(stage), derived_key(order, stage, "rf"))
