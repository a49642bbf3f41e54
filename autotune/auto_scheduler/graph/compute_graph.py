"""The graph of computes behind a kernel: its operations, how they read each other, its keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property

from autotune.auto_scheduler.graph.access import AccessAnalyzer
from autotune.auto_scheduler.graph.flop import count_flop
from autotune.auto_scheduler.graph.relink import linked_ops
from autotune.auto_scheduler.graph.topology import outputs_of
from autotune.errors import ExpressionError
from autotune.te.dag import post_order
from autotune.te.reduction import NUMBERED
from autotune.te.schedule import Schedule
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp, Tensor
from autotune.te.workload import digest, graph_text

# A line of the text that is longer is cut: this much of its head and of its tail stay.
_LINE, _KEPT = 256, 128


class ComputeGraph:
    """The operations behind some tensors, in the order of their stages; it never changes.

    Its subclass `ComputeDAG`, which has the same arguments, says what states of it are.
    """

    def __init__(self, compute: Sequence[Tensor] | Schedule) -> None:
        if isinstance(compute, Schedule):
            self.ops = linked_ops(compute)
            self.tensors = _arguments(self.ops)
            _check_loops(self.ops)
            return
        self.tensors = _check(compute)
        _check_loops(post_order(each.op for each in self.tensors))
        self.ops = tuple(post_order(outputs_of(self.tensors)))
        unread = [each.name for each in self.tensors if each.op not in self.ops]
        if unread:
            raise ExpressionError(
                f"ComputeDAG: {', '.join(unread)} is given but no output reads it; leave it out, "
                "or return the tensor that does"
            )

    @cached_property
    def outputs(self) -> tuple[Operation, ...]:
        """The operations that nobody reads, in topological order."""
        return outputs_of(self.tensors)

    @cached_property
    def access(self) -> AccessAnalyzer:
        """The reads between operations."""
        return AccessAnalyzer(self.ops)

    @cached_property
    def flop_ct(self) -> float:
        """The number of arithmetic operations; -1 where it cannot be told."""
        return count_flop(self.ops)

    def text(self, simple: bool = False) -> str:
        """Return one line an operation; ``simple`` is the form whose hash makes workload keys."""
        return graph_text(self.ops, simple)

    def hash_key(self) -> str:
        """Return the MD5 of the simple text, as TVM's workload keys have it."""
        return digest(self.text(simple=True))

    def workload_key(self) -> str:
        """Return the key of records: the hash, and the shapes of all inputs and outputs."""
        shapes = [[_constant(n) for n in tensor.shape] for tensor in self.tensors]
        return json.dumps([self.hash_key(), *shapes])

    def __str__(self) -> str:
        lines = self.text().splitlines()
        return "".join(_cut(line) + "\n" for line in lines)

    def __repr__(self) -> str:
        return f"ComputeDAG({', '.join(op.name for op in self.ops)})"


def _arguments(ops: Iterable[Operation]) -> tuple[Tensor, ...]:
    """Return the tensors of placeholders and of operations that nobody reads."""
    everything = list(ops)
    read = {tensor.op for op in everything for tensor in op.input_tensors}
    inputs = [op for op in everything if isinstance(op, PlaceholderOp)]
    outputs = [op for op in everything if isinstance(op, ComputeOp) and op not in read]
    return tuple(tensor for op in (*inputs, *outputs) for tensor in op.outputs)


def _check(tensors: object) -> tuple[Tensor, ...]:
    given = tuple(tensors) if isinstance(tensors, (list, tuple)) else (tensors,)
    for each in given:
        if not isinstance(each, Tensor):
            raise ExpressionError(
                "ComputeDAG: expected a list of te tensors (inputs and outputs), or a te "
                f"schedule, got {each!r}"
            )
    if all(isinstance(each.op, PlaceholderOp) for each in given):
        raise ExpressionError(
            "ComputeDAG: expected at least one computed tensor among the inputs and outputs, "
            f"got {[each.name for each in given]}"
        )
    return given


def _check_loops(ops: Iterable[Operation]) -> None:
    """Refuse an operation two of whose loops were given one name: records print loops by name."""
    for op in ops:
        if isinstance(op, ScanOp):
            raise ExpressionError(
                f"ComputeDAG: {op.name} is a te.scan, whose rows are computed one after another; "
                "the auto-scheduler has no rules for it: schedule it yourself, or by a template"
            )
        twice = [each.name for each in op.reduce_axis if each.var.axis == NUMBERED]
        if twice:
            raise ExpressionError(
                f"ComputeDAG: {op.name}: the reduction axis that is {twice[0]} here was given a "
                "name that another axis has; give each its own"
            )


def _constant(extent: object) -> int:
    if not isinstance(extent, int):
        raise ExpressionError(
            f"workload_key: expected constant shapes, got the extent {extent}; call the workload "
            "with numbers"
        )
    return extent


def _cut(line: str) -> str:
    if len(line) <= _LINE:
        return line
    return f"{line[:_KEPT]} ..(OMITTED).. {line[-_KEPT:]}"
