"""Where a schedule puts the stages of a recurrence: what is computed with each row, what before.

for scan.init in 1:            # the first rows
  init
for scan.idx in steps:         # env_threads go outside of both loops
  ... what a row needs ...
  update
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from autotune.errors import ScheduleError
from autotune.ir import IterVar, Range, Var
from autotune.te.relation import SingletonRelation
from autotune.te.scan import reading
from autotune.te.stage_state import StageState
from autotune.te.tensor import SEQUENTIAL, ComputeOp, Operation, ScanOp

S = TypeVar("S", bound=StageState)


def place_scans(stages: Sequence[S], stage_map: Mapping[Operation, S]) -> None:
    """Attach what a scan computes to the loops of its stage.

    Raises:
        ScheduleError: two scans share a state, an update, or what one begins with.
    """
    owner: dict[Operation, ScanOp] = {}
    for stage in stages:
        if isinstance(stage.op, ScanOp):
            _check_unshared(stage.op, owner)
            _place(stage, stage.op, stages, stage_map)


def _check_unshared(scan: ScanOp, owner: dict[Operation, ScanOp]) -> None:
    for tensor in (*scan.init, *scan.update, *scan.state_placeholder):
        other = owner.setdefault(tensor.op, scan)
        if other is not scan:
            raise ScheduleError(
                f"create_schedule: {scan.name} and {other.name} both use {tensor.name}, whose "
                "memory is the result of one scan; define it once for each, or make one scan of "
                "several states"
            )


def _place(scan: S, op: ScanOp, stages: Sequence[S], stage_map: Mapping[Operation, S]) -> None:
    begin = IterVar(Var(f"{op.name}.init", "int32", SEQUENTIAL), Range(0, 1), SEQUENTIAL)
    scan.relations.append(SingletonRelation(begin))
    scan.all_iter_vars.insert(0, begin)
    scan.leaf_iter_vars.insert(0, begin)
    scan.first_loops.insert(0, begin)
    for tensors, axis in ((op.init, begin), (op.update, op.scan_axis)):
        for tensor in tensors:
            stage = stage_map[tensor.op]
            stage.holds_state = True
            _attach(stage, scan, axis)
    for state in op.state_placeholder:
        stage_map[state.op].scan = scan
    for each in _with_each_row(op, stages):
        _attach(stage_map[each], scan, op.scan_axis)


def _attach(stage: S, scan: S, axis: IterVar) -> None:
    stage.scan = scan
    stage.attach_type, stage.attach_stage, stage.attach_iter = "at", scan, axis


def _with_each_row(scan: ScanOp, stages: Sequence[S]) -> list[Operation]:
    """Return the operations that are computed within the loop over rows, but for the updates.

    They depend on a state, or on an input of the scan and nothing outside the loop reads them.
    """
    everything = [stage.op for stage in stages]
    updates = {tensor.op for tensor in scan.update}
    behind = _behind(updates)
    order = [op for op in everything if op in behind and isinstance(op, ComputeOp)]
    inside = {*updates, *reading(order, {tensor.op for tensor in scan.state_placeholder})}
    near = set(reading(order, {tensor.op for tensor in scan.inputs}))
    for op in reversed(order):
        readers = [each for each in everything if any(t.op is op for t in each.input_tensors)]
        if op in near and inside.issuperset(readers):
            inside.add(op)
    return [op for op in order if op in inside and op not in updates]


def _behind(ops: set[Operation]) -> set[Operation]:
    """Return operations and all that they read, directly or through others."""
    found: set[Operation] = set()
    todo = list(ops)
    while todo:
        op = todo.pop()
        if op not in found:
            found.add(op)
            todo += [tensor.op for tensor in op.input_tensors]
    return found
