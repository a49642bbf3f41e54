"""A search task: what to compute, on which device, and what is known of that device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.auto_scheduler.compute_dag import ComputeDAG
from autotune.auto_scheduler.equivalent_keys import structural_hash
from autotune.auto_scheduler.errors import SearchTaskError
from autotune.auto_scheduler.hardware_params import HardwareParams
from autotune.auto_scheduler.recorded_state import RecordedState
from autotune.auto_scheduler.workload_registry import (
    is_registered,
    make_workload_key,
    register_workload_tensors,
    workload_key_to_tensors,
)
from autotune.errors import SpaceError
from autotune.ir.dtype import bits_of
from autotune.target import Target
from autotune.te.schedule import Schedule
from autotune.te.tensor import Tensor
from autotune.utils.check import Check
from autotune.workload import Computed, Realisation

if TYPE_CHECKING:
    from autotune.auto_scheduler.measuring import TuningOptions
    from autotune.auto_scheduler.search_policy import SearchPolicy


class LayoutRewriteOption(IntEnum):
    """What is done about the layout of weights (see `SearchTask`)."""

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    REWRITE_FOR_PRE_TRANSFORMED = 2

    @staticmethod
    def get_target_default(
        target: str | Target, in_relay_integration: bool = False
    ) -> LayoutRewriteOption:
        """Return what is usual: weights are rewritten on a CPU, and not on a GPU."""
        if "cpu" not in Target(target).keys and Target(target).device_name != "mali":
            return LayoutRewriteOption.NO_REWRITE
        if in_relay_integration:
            return LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
        return LayoutRewriteOption.INSERT_TRANSFORM_STAGE


class SearchTask:
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
        task_inputs: inputs that records name as not random, or their values by name. Trials draw
            random values for all inputs nevertheless.
        task_inputs_overwrite: kept for TVM's scripts.
        task_inputs_save_to_file: kept for TVM's scripts.
        desc: shown in the table of tasks.

    Raises:
        SearchTaskError: it is not said what to compute, or for which target.
        TemplateError: the function is not registered.

    Example::

        task = SearchTask(func=matmul, args=(512, 512, 512), target="cuda")
    """

    def __init__(
        self,
        func: str | Callable[..., Any] | ComputeDAG | None = None,
        args: Sequence[Any] | str | None = None,
        compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None,
        target: str | Target | None = None,
        target_host: str | Target | None = None,
        hardware_params: HardwareParams | None = None,
        layout_rewrite_option: LayoutRewriteOption | int | None = None,
        task_inputs: Mapping[str, Any] | Sequence[str] | None = None,
        task_inputs_overwrite: bool = False,
        task_inputs_save_to_file: bool = False,
        desc: str = "",
    ) -> None:
        del task_inputs_overwrite, task_inputs_save_to_file
        if isinstance(func, ComputeDAG):
            if compute_dag is None:  # the rest came by name
                workload_key = workload_key or _text(args)
            else:
                given: Any = (args, compute_dag, workload_key, target)
                workload_key, target, target_host, params = given
                hardware_params = hardware_params or params
            func, args, compute_dag = None, None, func
        if target is None:
            raise SearchTaskError(
                "SearchTask: Must specify a target, such as target='cuda' or 'llvm'"
            )
        check = Check(SearchTaskError, "SearchTask")
        if workload_key is not None:
            check.text("workload_key", workload_key, '["matmul", 64, 64, 64]')
        if compute_dag is not None:
            check.kind("compute_dag", compute_dag, ComputeDAG, "a ComputeDAG")
        if hardware_params is not None:
            check.kind("hardware_params", hardware_params, HardwareParams, "HardwareParams")
        if task_inputs is not None and not isinstance(task_inputs, Mapping):
            check.sequence("task_inputs", task_inputs, "values by name, or a list of names")
        self.workload_key = _key(func, args, workload_key, compute_dag)
        self.compute_dag = compute_dag or ComputeDAG(workload_key_to_tensors(self.workload_key))
        self.target = Target(target, target_host)
        self.hardware_params = hardware_params or HardwareParams(target=self.target)
        option = (
            LayoutRewriteOption.get_target_default(self.target)
            if layout_rewrite_option is None
            else layout_rewrite_option
        )
        if option not in list(LayoutRewriteOption):
            check.refuse("layout_rewrite_option", "one of 0, 1 and 2", option)
        self.layout_rewrite_option = LayoutRewriteOption(option)
        values = task_inputs if isinstance(task_inputs, Mapping) else {}
        self.task_inputs: dict[str, Any] = dict(values)
        self.task_input_names: list[str] = list(task_inputs or ())
        self.desc = desc
        if compute_dag is not None and not is_registered(self.workload_key):
            register_workload_tensors(self.workload_key, compute_dag.tensors)

    @property
    def target_host(self) -> Target | None:
        """The target of the host, where one was given."""
        return self.target.host

    # A workload, to those who measure it.

    @property
    def name(self) -> str:
        """A short name: its description, or that of its last operation."""
        return self.desc or self.compute_dag.outputs[-1].name

    @property
    def key(self) -> str:
        """The workload key."""
        return self.workload_key

    @cached_property
    def graph_hash(self) -> str:
        """A hash of what is computed, whatever it is called: keys of functions do not tell."""
        return structural_hash(self.compute_dag)

    @property
    def flop(self) -> float:
        """Operations of one run; 0 where they cannot be counted."""
        return max(self.compute_dag.flop_ct, 0.0)

    @cached_property
    def bytes(self) -> float:
        """Bytes of all inputs and outputs, each read or written once."""
        total = 0
        for tensor in self.compute_dag.tensors:
            extents = [n for n in tensor.shape if isinstance(n, int)]
            total += math.prod(extents) * ((bits_of(tensor.dtype) + 7) // 8)
        return float(total)

    def realise(self, candidate: Any) -> Realisation:
        """Schedule the graph as a candidate says.

        Raises:
            SpaceError: it has no steps.
            ScheduleError: its steps do not fit the graph.
        """
        if not hasattr(candidate, "transform_steps"):
            raise SpaceError(f"search task {self.name!r}: expected a state, got {candidate!r}")
        schedule, tensors = self.compute_dag.apply_steps_from_state(candidate)
        return Realisation((schedule, list(tensors)), Computed(tensors), self.flop, self.bytes)

    def examples(self) -> Iterable[RecordedState]:
        """Return the plain state."""
        return (RecordedState(()),)

    def default(self) -> RecordedState | None:
        """Return None: nothing is used untuned yet."""
        return None

    def own(self, candidate: Any) -> Any:
        """Return a candidate of a log as it is."""
        return candidate

    # Searching; the search knows tasks, so it is loaded when it is used.

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
        from autotune.auto_scheduler.tune_task import tune_task

        del adaptive_training
        tune_task(self, tuning_options, search_policy)

    def apply_best(
        self,
        log_file: str | Path,
        include_compatible: bool = False,
        layout_rewrite_option: LayoutRewriteOption | None = None,
    ) -> tuple[Schedule, list[Tensor]]:
        """Return the schedule of the fastest record of this task, and the kernel's arguments.

        Raises:
            NoScheduleError: the log holds no record of this task.
        """
        from autotune.auto_scheduler.tune_task import apply_best

        del layout_rewrite_option
        return apply_best(self, log_file, include_compatible)

    def print_best(self, log_file: str | Path, print_mode: str = "schedule") -> str:
        """Return the fastest record of this task as text.

        Args:
            log_file: where to look.
            print_mode: ``"schedule"``, the calls as TVM prints them; ``"python"``, a function
                that runs; ``"cuda"``, the source of the kernel with its launch.
        """
        from autotune.auto_scheduler.tune_task import print_best

        return print_best(self, log_file, print_mode)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SearchTask) and (
            (self.workload_key, self.target) == (other.workload_key, other.target)
        )

    def __hash__(self) -> int:
        return hash((self.workload_key, self.target))

    def __repr__(self) -> str:
        return f"SearchTask({self.workload_key}, {self.target})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "task_inputs": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not is_registered(self.workload_key):
            register_workload_tensors(self.workload_key, self.compute_dag.tensors)


def create_task(
    func: str | Callable[..., Any],
    args: Sequence[Any],
    target: str | Target,
    target_host: str | Target | None = None,
    hardware_params: HardwareParams | None = None,
) -> SearchTask:
    """Return the search task of a registered function; TVM 0.7's name for `SearchTask`."""
    return SearchTask(
        func=func, args=args, target=target, target_host=target_host,
        hardware_params=hardware_params,
    )  # fmt: skip


def _text(key: Any) -> str | None:
    return key if isinstance(key, str) else None


def _key(func: Any, args: Any, workload_key: str | None, dag: ComputeDAG | None) -> str:
    if workload_key is not None:
        return workload_key
    if func is not None:
        return make_workload_key(func, () if args is None else args)
    if dag is not None:
        return dag.workload_key()
    raise SearchTaskError(
        "SearchTask: Either a workload generation function or a workload key should be provided: "
        "func=..., args=..., or workload_key=..., or compute_dag=..."
    )
