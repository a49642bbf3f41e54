"""The graph of computes behind a kernel, in the form that the auto-scheduler works on."""

from __future__ import annotations

from functools import cached_property

from autotune.auto_scheduler.bounds import infer_bound
from autotune.auto_scheduler.compute_graph import ComputeGraph
from autotune.auto_scheduler.loop_state import HasSteps, StateObject, TransformStep, plain_state
from autotune.auto_scheduler.python_text import runnable_text, schedule_text
from autotune.auto_scheduler.replay import apply_steps
from autotune.auto_scheduler.state import State
from autotune.errors import ScheduleError
from autotune.te.schedule import Schedule
from autotune.te.tensor import Tensor
from autotune.utils.check import shown


class ComputeDAG(ComputeGraph):
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

    def __reduce__(self) -> tuple[type[ComputeDAG], tuple[list[Tensor]]]:
        return ComputeDAG, (list(self.tensors),)


def _steps(who: str, state: object) -> tuple[TransformStep, ...]:
    steps = getattr(state, "transform_steps", None)
    if not isinstance(steps, tuple):
        raise ScheduleError(f"{who}: state must be a loop state, got {shown(state)}")
    return steps
