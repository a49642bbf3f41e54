"""The graph of computes behind a kernel, in the form that the auto-scheduler works on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from autotune.auto_scheduler.graph.access import AccessAnalyzer
from autotune.auto_scheduler.graph.compute_graph import ComputeGraph
from autotune.auto_scheduler.layouts.layout_graph import LayoutRewriteOption, rewritten
from autotune.auto_scheduler.layouts.layout_rewrite import free_placeholders, layouts_of
from autotune.auto_scheduler.states.bounds import infer_bound
from autotune.auto_scheduler.states.loop_state import (
    HasSteps,
    StateObject,
    TransformStep,
    plain_state,
)
from autotune.auto_scheduler.states.python_text import runnable_text, schedule_text
from autotune.auto_scheduler.states.replay import apply_steps
from autotune.auto_scheduler.states.state import State
from autotune.auto_scheduler.workload_registry import workload_key_to_tensors
from autotune.errors import ScheduleError
from autotune.kernel.layout import TiledLayout
from autotune.te.schedule import Schedule
from autotune.te.tensor import Operation, PlaceholderOp, Tensor
from autotune.utils.check import shown


class ComputeDAG(ComputeGraph):
    """The operations behind some tensors, in the order of their stages; it never changes.

    Args:
        compute: the inputs and outputs of a kernel as te tensors, in the order of its arguments;
            or a te schedule, whose stages and their order are taken over; or the key of a
            registered workload.

    Attributes:
        tensors: inputs and outputs. Of a schedule: placeholders, then outputs.
        ops: all operations in the order of a plain schedule's stages, each after those it reads.

    Raises:
        ExpressionError: ``compute`` is none of them, or holds no compute.
        TemplateError: the workload is not registered.
    """

    def __init__(self, compute: Sequence[Tensor] | Schedule | str) -> None:
        super().__init__(workload_key_to_tensors(compute) if isinstance(compute, str) else compute)

    @property
    def access_analyzer(self) -> AccessAnalyzer:
        """The reads between operations; TVM's name for `access`."""
        return self.access

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
            layout_rewrite: what is done about the order of weights that an operation lists in its
                attribute ``layout_free_placeholders``, see `LayoutRewriteOption`. With
                ``REWRITE_FOR_PRE_TRANSFORMED`` their tensors have the shapes of
                `layouts_from_state`, in which a caller lays them out.

        Raises:
            ScheduleError: a step cannot be taken, or the length of a loop is not decided.
        """
        steps = _steps("apply_steps_from_state", state)
        return apply_steps(
            *rewritten(self, steps, _option("apply_steps_from_state", layout_rewrite))
        )

    @property
    def free_inputs(self) -> tuple[Operation, ...]:
        """The inputs that may have any layout, by the attributes of operations that read them."""
        found = [each for op in self.ops for each in free_placeholders(op)]
        return tuple([op for op in dict.fromkeys(found) if isinstance(op, PlaceholderOp)])

    def layouts_from_state(self, state: HasSteps) -> tuple[TiledLayout | None, ...]:
        """Return for each of the tensors the order of elements in which a state reads it.

        None stands for those that it reads as they are. `TiledLayout.forward` lays an array out,
        `TiledLayout.inverse` undoes that.

        Raises:
            ScheduleError: a step cannot be taken, or the length of a loop is not decided.
        """
        found = layouts_of(self, _steps("layouts_from_state", state))
        return tuple([found.get(tensor.op) for tensor in self.tensors])

    def rewrite_layout_from_state(self, state: HasSteps) -> ComputeDAG:
        """Return the graph with weights in the order in which a state reads them; TVM's name.

        Raises:
            ScheduleError: a step cannot be taken, or the length of a loop is not decided.
        """
        steps = _steps("rewrite_layout_from_state", state)
        option = LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
        return ComputeDAG(rewritten(self, steps, option)[0].tensors)

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
            LoweringError: a stage is attached where it cannot be computed.
        """
        if isinstance(state, State):
            return state.with_object(infer_bound(state.state_object))
        if isinstance(state, StateObject) and state.dag is self:
            return State(infer_bound(state), self)
        steps = _steps("infer_bound_from_state", state)
        return State(infer_bound(self.init_state.after(steps)), self)

    def __reduce__(self) -> tuple[type[ComputeDAG], tuple[list[Tensor]]]:
        return ComputeDAG, (list(self.tensors),)


def _option(who: str, given: int) -> LayoutRewriteOption:
    if given not in list(LayoutRewriteOption):
        raise ScheduleError(f"{who}: layout_rewrite must be 0, 1 or 2, got {shown(given)}")
    return LayoutRewriteOption(given)


def _steps(who: str, state: object) -> tuple[TransformStep, ...]:
    steps = getattr(state, "transform_steps", None)
    if not isinstance(steps, tuple):
        raise ScheduleError(f"{who}: state must be a loop state, got {shown(state)}")
    return steps
