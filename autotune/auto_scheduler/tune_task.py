"""Tuning of one task, and schedules from the best record of a log."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from autotune.auto_scheduler.cost_model import XGBModel
from autotune.auto_scheduler.errors import NoScheduleError, PrintModeError, TuningOptionError
from autotune.auto_scheduler.layouts.layout_graph import LayoutRewriteOption
from autotune.auto_scheduler.measuring.measure_input import MeasureInput
from autotune.auto_scheduler.measuring.measure_options import TuningOptions
from autotune.auto_scheduler.problem.equivalent_keys import equivalent_keys
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.records.best import best_of, size_factor
from autotune.auto_scheduler.records.resume import Definition
from autotune.auto_scheduler.search_policy import SearchPolicy, SketchPolicy
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.driver import kernel_of
from autotune.errors import AutotuneError, TunerError
from autotune.kernel import KernelCall
from autotune.measure import MeasureResult
from autotune.target.backends import CUDA
from autotune.te.schedule import Schedule
from autotune.te.tensor import Tensor
from autotune.utils.check import Check

logger = logging.getLogger("auto_scheduler")


def tune_task(
    task: SearchProblem, options: TuningOptions, search_policy: SearchPolicy | None = None
) -> SearchPolicy:
    """Search a task and return the policy, which knows what it found.

    With at most one trial nothing is measured. A search in which nothing works says why in the
    log, and leaves nothing behind.
    """
    check = Check(TuningOptionError, "tune")
    check.kind("task", task, SearchProblem, "a SearchTask")
    check.kind("tuning_options", options, TuningOptions, "TuningOptions")
    if search_policy is not None:
        check.kind("search_policy", search_policy, SearchPolicy, "a SearchPolicy")
    policy = search_policy or SketchPolicy(task, XGBModel())
    if options.num_measure_trials > 1:
        try:
            policy.search(options)
        except TunerError as error:
            logger.error("%s: %s", task.workload_key, error)
        else:
            policy.report_nothing_measured()
    elif options.num_measure_trials == 1:
        logger.warning(
            "tune: num_measure_trials=1 measures nothing and writes no record, as in TVM; ask for "
            "2 at least"
        )
    return policy


def auto_schedule(
    task: SearchProblem,
    search_policy: SearchPolicy | None = None,
    tuning_options: TuningOptions | None = None,
) -> tuple[Schedule, list[Tensor]]:
    """Search a task and return the schedule of the fastest state, and the kernel's arguments.

    TVM 0.7's name. With at most one trial it is the state that is predicted to be the fastest.

    Raises:
        NoScheduleError: no state of the task runs.
    """
    options = TuningOptions() if tuning_options is None else tuning_options
    policy = tune_task(task, options, search_policy)
    state = policy.best[0] if policy.best is not None else None
    if state is None:
        state = next(iter(policy.propose(1)), None)
    if state is None:
        raise NoScheduleError(f"auto_schedule: found no state of {task!r} that can run")
    option = task.layout_rewrite_option
    schedule, tensors = task.compute_dag.apply_steps_from_state(state, option)
    return schedule, list(tensors)


def best_of_log(
    task: SearchProblem, log_file: str | Path, include_compatible: bool = False
) -> tuple[MeasureInput, MeasureResult]:
    """Return the fastest record of a task, under any of its keys, whose steps apply to its graph.

    Records that were measured with weights in another layout count if there are no others.

    Raises:
        NoScheduleError: there is no such record.
    """
    keys = equivalent_keys(task.compute_dag, task.workload_key)
    definition = Definition(task, keys)
    fitting = _Fitting(task, definition)

    def factor(inp: MeasureInput, result: MeasureResult) -> float:
        if definition.concerns(inp, result):
            return 1.0
        known = inp.task.workload_key
        return min(size_factor(key, known, include_compatible) for key in keys)

    best = best_of(log_file, task.target, factor, fitting.in_the_same_order)
    best = best or best_of(log_file, task.target, factor, fitting.accepts)
    definition.warn(log_file)
    if best is None:
        raise NoScheduleError(
            f"Cannot find any valid schedule for {task.workload_key} in file {log_file}"
            f"{definition.said()}{fitting.said()}"
        )
    if fitting.misfits:
        logger.warning("%s: %s%s", log_file, task.workload_key, fitting.said())
    return best


@dataclass
class _Fitting:
    """Distinguishes records whose steps apply to the graph of a task from others.

    Attributes:
        task: the task.
        definition: its keys, and the graphs to which records under these keys belong.
        misfits: errors of records whose steps do not apply, by the keys of their states.
    """

    task: SearchProblem
    definition: Definition
    misfits: dict[str, str] = field(default_factory=dict)

    def accepts(self, inp: MeasureInput, result: MeasureResult) -> bool:
        """Return whether a record is of the task's graph, and its steps fit that."""
        if not self.definition.made(inp, result):
            return False
        try:
            self.task.compute_dag.apply_steps_from_state(inp.state)
        except AutotuneError as error:
            self.misfits[inp.key] = str(error)
        return inp.key not in self.misfits

    def in_the_same_order(self, inp: MeasureInput, result: MeasureResult) -> bool:
        """Return whether, besides, its weights were measured in the order of the task's."""
        return self.task.times_alike(inp.task.layout_rewrite_option) and self.accepts(inp, result)

    def said(self) -> str:
        """Return the end of a message: how many misfits there are, and what the first is."""
        if not self.misfits:
            return ""
        first = next(iter(self.misfits.values()))
        return (
            f"; {len(self.misfits)} faster records do not fit it and are passed over; "
            f"the first: {first}"
        )


def apply_best(
    task: SearchProblem,
    log_file: str | Path,
    include_compatible: bool = False,
    layout_rewrite_option: LayoutRewriteOption | None = None,
) -> tuple[Schedule, list[Tensor]]:
    """Return the schedule of the fastest record of a task, and the kernel's arguments."""
    inp, _ = best_of_log(task, log_file, include_compatible)
    known = task.layout_rewrite_option
    option = known if layout_rewrite_option is None else layout_rewrite_option
    schedule, tensors = task.compute_dag.apply_steps_from_state(inp.state, option)
    return schedule, list(tensors)


def print_best(task: SearchProblem, log_file: str | Path, print_mode: str = "schedule") -> str:
    """Return the fastest record of a task as text; see `SearchTask.print_best`."""
    inp, _ = best_of_log(task, log_file)
    if print_mode in ("schedule", "python"):
        return task.compute_dag.print_python_code_from_state(inp.state, print_mode)
    if print_mode == "cuda":
        return cuda_text(task, RecordedState(tuple(inp.state.transform_steps)))
    raise PrintModeError(
        f"Invalid print_mode: {print_mode}; expected 'schedule', 'python' or 'cuda'"
    )


def cuda_text(task: SearchProblem, state: RecordedState) -> str:
    """Return the CUDA source of a state, with the launch of each kernel in a comment."""
    if task.target.backend.language != CUDA.language:
        raise PrintModeError(
            f"print_mode 'cuda' needs a task for target cuda, this one is for {task.target.kind}"
        )
    kernel = kernel_of(task.realise(state).what, task.target)
    return "".join(map(_launched, kernel.calls)) + kernel.source


def _launched(call: KernelCall) -> str:
    """Return how a kernel is launched, as a comment."""
    grid, block = (", ".join(map(str, each)) for each in (call.launch.grid, call.launch.block))
    shared = f", {call.launch.shared_bytes}" if call.launch.shared_bytes else ""
    arguments = ", ".join(call.args)
    return f"// {call.entry}<<<dim3({grid}), dim3({block}){shared}>>>({arguments});\n"
