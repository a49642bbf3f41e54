"""The plan of an operation of hand-written statements: it reads and writes whole tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from autotune.errors import LoweringError
from autotune.ir.expr import IterVar, ProducerLoad, as_expr
from autotune.ir.stmt import For, ForKind
from autotune.ir.structure import walk
from autotune.lowering.plan import Body, StagePlan
from autotune.te.extern import ExternOp
from autotune.te.registered_call import registered_calls
from autotune.te.stage import Stage
from autotune.te.tensor import Operation


def thread_axes(op: ExternOp, gpu: bool) -> Iterator[tuple[IterVar, int]]:
    """Yield the thread axes that the statements of an operation name, with their extents.

    Raises:
        LoweringError: the target has no threads, or an extent is not constant.
    """
    called = registered_calls(op.body) if gpu else []
    if called:
        raise LoweringError(
            f"te.extern: {op.name} calls the function {called[0]!r}, which runs on a CPU, and the "
            "target is a GPU; build for llvm, or call it between two kernels"
        )
    for node in walk(op.body):
        if not isinstance(node, For) or node.kind is not ForKind.THREAD:
            continue
        tag = str(node.thread)
        if not gpu:
            raise LoweringError(
                f"te.extern: {op.name}: its statements name threads ({tag}), but the target is a "
                "CPU; write them without, or build for a GPU"
            )
        if node.iterations is None:
            raise LoweringError(f"te.extern: {op.name}: {tag} must have a constant extent")
        yield IterVar(node.var, None, "thread", tag), node.iterations


def extern_plan(stage: Stage, op: ExternOp, stage_of: Mapping[Operation, Stage]) -> StagePlan:
    """Return the plan of a stage: its values are the first elements of all that it reads.

    Raises:
        LoweringError: something that it reads is not computed as a whole.
    """
    for tensor in op.inputs:
        if stage_of[tensor.op].attach_type != "root":
            raise LoweringError(
                f"te.extern: {op.name} reads all of {tensor.name}, which is computed in parts "
                "where it is read; compute it at the root"
            )
    reads = [ProducerLoad(each, tuple([as_expr(0)] * len(each.shape))) for each in op.inputs]
    return StagePlan(
        stage=stage,
        root=stage,
        scope="global",
        compact=False,
        regions=(),
        extents={},
        loops={},
        threads={},
        values={},
        conditions=(),
        outside=frozenset(),
        body=Body(tuple(reads)),
    )
