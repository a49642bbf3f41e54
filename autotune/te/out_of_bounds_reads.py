"""A warning of computes that read beyond the ends of a tensor, where a CPU finds anything."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.ir import IntImm, substitute
from autotune.te.location import warn_user
from autotune.te.scan_reads import certain_reads, ends_of
from autotune.te.schedule import Schedule
from autotune.te.tensor import ComputeOp, Tensor


def warn_of_out_of_bounds_reads(schedule: Schedule) -> None:
    """Warn of elements that computes read where a tensor has none.

    The first and last values of all axes are looked at, and reads that no condition may leave out;
    not steps of a recurrence, which `check_rows` looks at.
    """
    for stage in schedule.stages:
        if isinstance(stage.op, ComputeOp) and stage.scan is None:
            for text in dict.fromkeys(_reads_beyond(stage.op)):
                warn_user(text)


def _reads_beyond(op: ComputeOp) -> Iterator[str]:
    ends = ends_of(op, op.axis)
    for load in certain_reads(op.body):
        for axis, (index, extent) in enumerate(zip(load.indices, load.tensor.shape, strict=True)):
            for at in (substitute(index, end) for end in ends):
                if isinstance(at, IntImm) and _is_beyond(at.value, extent):
                    yield _told(op, load.tensor, axis, at.value)


def _is_beyond(index: int, extent: object) -> bool:
    return index < 0 or (isinstance(extent, int) and index >= extent)


def _told(op: ComputeOp, tensor: Tensor, axis: int, index: int) -> str:
    return (
        f"{op.name} reads {tensor.name} at {index} in dimension {axis}, whose extent is "
        f"{tensor.shape[axis]}: what is there is not known. Pad {tensor.name} (topi.nn.pad), or "
        "read it under a condition (te.if_then_else)"
    )
