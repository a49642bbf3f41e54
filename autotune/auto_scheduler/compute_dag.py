"""The graph of computes behind a kernel, in the form that the auto-scheduler works on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from autotune.auto_scheduler.access import AccessAnalyzer
from autotune.auto_scheduler.bounds import infer_bound
from autotune.auto_scheduler.flop import count_flop
from autotune.auto_scheduler.loop_state import HasSteps, StateObject, plain_state
from autotune.auto_scheduler.python_text import runnable_text, schedule_text
from autotune.auto_scheduler.relink import linked_ops
from autotune.auto_scheduler.replay import apply_steps
from autotune.auto_scheduler.state import State
from autotune.auto_scheduler.topology import outputs_of
from autotune.auto_scheduler.transform_steps.base import TransformStep
from autotune.errors import ExpressionError, ScheduleError
from autotune.te.dag import post_order
from autotune.te.schedule import Schedule
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from autotune.te.workload import digest, graph_text
from autotune.utils.check import shown

# A line of the text that is longer is cut: this much of its head and of its tail stay.
_LINE, _KEPT = 256, 128


class ComputeDAG:
    """The operations behind some tensors, in the order of their stages; it never changes.

    Args:
        compute: the inputs and outputs of a kernel as te tensors, in the order of its arguments,
            or a te schedule, whose stages and their order are taken over.

    Attributes:
        tensors: inputs and outputs. Of a schedule: placeholders, then outputs.
        ops: all operations in the order of a plain schedule's stages, each after those it reads.

    Raises:
        ExpressionError: ``compute`` is neither, or holds no compute.
    """

    def __init__(self, compute: Sequence[Tensor] | Schedule) -> None:
        if isinstance(compute, Schedule):
            self.ops = linked_ops(compute)
            self.tensors = _arguments(self.ops)
            return
        self.tensors = _checked(compute)
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
        """How the operations read each other."""
        return AccessAnalyzer(self.ops)

    @cached_property
    def flop_ct(self) -> float:
        """The number of arithmetic operations; -1 where it cannot be told."""
        return count_flop(self.ops)

    @cached_property
    def init_state(self) -> StateObject:
        """The plain state: each stage in loops of its own."""
        return plain_state(self)

    def get_init_state(self) -> State:
        """Return the plain state, with primitives that change it."""
        return State(self.init_state, self)

    def apply_steps_from_state(
        self, state: HasSteps, layout_rewrite: int = 0
    ) -> tuple[Schedule, tuple[Tensor, ...]]:
        """Return the te schedule of a state, and the tensors that a kernel of it takes.

        Args:
            state: whose steps they are.
            layout_rewrite: 0 or 1 of TVM's options. Weights are read as they are in either case,
                where TVM's option 1 would have the kernel copy them first.

        Raises:
            ScheduleError: a step cannot be taken, the length of a loop is not decided, or weights
                are to be given in another layout (option 2).
        """
        if layout_rewrite not in (0, 1):
            raise ScheduleError(
                "apply_steps_from_state: weights cannot be given in another layout yet; expected "
                f"layout_rewrite 0 or 1, got {layout_rewrite!r}"
            )
        return apply_steps(self, _steps("apply_steps_from_state", state))

    def print_python_code_from_state(self, state: HasSteps, mode: str = "schedule") -> str:
        """Return the steps of a state as python calls.

        Args:
            state: whose steps they are.
            mode: ``"schedule"`` is TVM's text; ``"python"`` is a function that runs.
        """
        if mode not in ("schedule", "python"):
            raise ScheduleError(f"expected mode 'schedule' or 'python', got {mode!r}")
        written = schedule_text if mode == "schedule" else runnable_text
        return written(self, _steps("print_python_code_from_state", state))

    def infer_bound_from_state(self, state: HasSteps) -> State:
        """Return a state in which all loops of stages that are computed have their ranges.

        Raises:
            LoweringError: a stage hangs where it cannot be computed.
        """
        if isinstance(state, State):
            return state.with_object(infer_bound(state.state_object))
        if isinstance(state, StateObject) and state.dag is self:
            return State(infer_bound(state), self)
        steps = _steps("infer_bound_from_state", state)
        return State(infer_bound(self.init_state.after(steps)), self)

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

    def __reduce__(self) -> tuple[Any, ...]:
        return ComputeDAG, (list(self.tensors),)


def _steps(who: str, state: Any) -> tuple[TransformStep, ...]:
    steps = getattr(state, "transform_steps", None)
    if not isinstance(steps, tuple):
        raise ScheduleError(f"{who}: state must be a loop state, got {shown(state)}")
    return steps


def _arguments(ops: Iterable[Operation]) -> tuple[Tensor, ...]:
    """Return the tensors of placeholders and of operations that nobody reads."""
    everything = list(ops)
    read = {tensor.op for op in everything for tensor in op.input_tensors}
    inputs = [op for op in everything if isinstance(op, PlaceholderOp)]
    outputs = [op for op in everything if isinstance(op, ComputeOp) and op not in read]
    return tuple(tensor for op in (*inputs, *outputs) for tensor in op.outputs)


def _checked(tensors: Any) -> tuple[Tensor, ...]:
    given = tuple(tensors) if isinstance(tensors, (list, tuple)) else (tensors,)
    for each in given:
        if not isinstance(each, Tensor):
            raise ExpressionError(
                "ComputeDAG: expected a list of te tensors (inputs and outputs), or a te "
                f"schedule, got {each!r}"
            )
    if not any(isinstance(each.op, ComputeOp) for each in given):
        raise ExpressionError(
            "ComputeDAG: expected at least one computed tensor among the inputs and outputs, "
            f"got {[each.name for each in given]}"
        )
    return given


def _constant(extent: Any) -> int:
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
