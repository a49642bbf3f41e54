"""A search task: a problem of the auto-scheduler with the methods that scripts call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from autotune.auto_scheduler.layouts.layout_graph import LayoutRewriteOption
from autotune.auto_scheduler.measuring.measure_input import MeasureInput, RecordedTask
from autotune.auto_scheduler.measuring.measure_options import TuningOptions
from autotune.auto_scheduler.problem.hardware_params import HardwareParams
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.search_policy import SearchPolicy
from autotune.auto_scheduler.states.loop_state import HasSteps
from autotune.auto_scheduler.tune_task import apply_best, print_best, tune_task
from autotune.target import Target
from autotune.te.schedule import Schedule
from autotune.te.tensor import Tensor

__all__ = ["LayoutRewriteOption", "SearchTask", "create_task", "recover_measure_input"]


class SearchTask(SearchProblem):
    """A computation to be made fast on a target; it never changes. It needs no device.

    It is a `Workload`: what measures, races and logs the trials of templates does so with the
    states of a search task.

    Args:
        func: a function registered by `register_workload`, or its name. Also, as in TVM 0.7, a
            `ComputeDAG`; then the next ones are workload_key, target, target_host and
            hardware_params.
        args: its arguments.
        compute_dag: the graph itself, in place of a function.
        workload_key: the key of logs; by default it follows from the function or the graph.
        target: what it is for.
        target_host: kept for records.
        hardware_params: of the device; by default those of the target.
        layout_rewrite_option: by default the target's, see `LayoutRewriteOption`.
        task_inputs: values of inputs by name, which trials run on in place of random ones, such as
            indices; or the names alone of such that have a value already.
        task_inputs_overwrite: whether they take the place of earlier values of this workload.
        task_inputs_save_to_file: kept for TVM's scripts; no file is written.
        desc: shown in the table of tasks.

    Raises:
        SearchTaskError: it is not said what to compute, or for which target.
        TemplateError: the function is not registered.

    Example::

        task = SearchTask(func=matmul, args=(512, 512, 512), target="cuda")
    """

    def tune(
        self,
        tuning_options: TuningOptions,
        search_policy: SearchPolicy | None = None,
        adaptive_training: bool = False,
    ) -> None:
        """Search for fast schedules; what is measured goes to the callbacks of the options.

        Args:
            tuning_options: how long, and who measures and logs.
            search_policy: by default a new `SketchPolicy` with an `XGBModel`.
            adaptive_training: kept for TVM's scripts.
        """
        del adaptive_training
        tune_task(self, tuning_options, search_policy)

    def apply_best(
        self,
        log_file: str | Path,
        include_compatible: bool = False,
        layout_rewrite_option: LayoutRewriteOption | None = None,
    ) -> tuple[Schedule, list[Tensor]]:
        """Return the schedule of the fastest record of this task, and the kernel's arguments.

        Args:
            log_file: where to look.
            include_compatible: whether records of smaller workloads are used, whose sizes divide
                those of this one.
            layout_rewrite_option: what is done about the order of weights; by default as the task
                says. With ``REWRITE_FOR_PRE_TRANSFORMED`` the kernel takes them as
                `ComputeDAG.layouts_from_state` says.

        Raises:
            NoScheduleError: the log holds no record of this task.
        """
        return apply_best(self, log_file, include_compatible, layout_rewrite_option)

    def print_best(self, log_file: str | Path, print_mode: str = "schedule") -> str:
        """Return the fastest record of this task as text.

        Args:
            log_file: where to look.
            print_mode: ``"schedule"``, the calls as TVM prints them; ``"python"``, a function
                that runs; ``"cuda"``, the source of the kernel with its launch.
        """
        return print_best(self, log_file, print_mode)


def create_task(
    func: str | Callable[..., object],
    args: Sequence[object],
    target: str | Target,
    target_host: str | Target | None = None,
    hardware_params: HardwareParams | None = None,
) -> SearchTask:
    """Return the search task of a registered function; TVM 0.7's name for `SearchTask`."""
    return SearchTask(
        func=func, args=args, target=target, target_host=target_host,
        hardware_params=hardware_params,
    )  # fmt: skip


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """Returns an input of a record with the task as it is in this process.

    Args:
        inp: an input that was read from a record.
        rebuild_state: whether the loops of the state, with their ranges, are computed, so that it
            can be printed.

    Raises:
        TemplateError: the workload is not registered in this process.
        ScheduleError: a step does not fit the graph.
    """
    task = inp.task.recovered(SearchTask) if isinstance(inp.task, RecordedTask) else inp.task
    state: HasSteps = inp.state
    if rebuild_state:
        state = task.compute_dag.infer_bound_from_state(state)
    return MeasureInput(task, state)
