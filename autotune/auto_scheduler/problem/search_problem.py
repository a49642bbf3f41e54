"""The search problem: the computation, the device, and its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

from autotune.auto_scheduler.errors import SearchTaskError
from autotune.auto_scheduler.layouts.layout_graph import LayoutRewriteOption
from autotune.auto_scheduler.problem.compute_dag import ComputeDAG
from autotune.auto_scheduler.problem.equivalent_keys import structural_hash
from autotune.auto_scheduler.problem.hardware_params import HardwareParams
from autotune.auto_scheduler.problem.task_inputs import check_shapes, given_values, values_by_place
from autotune.auto_scheduler.states.loop_state import HasSteps
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.auto_scheduler.workload_registry import (
    is_registered,
    make_workload_key,
    register_workload_tensors,
    workload_key_to_tensors,
)
from autotune.errors import SpaceError
from autotune.kernel.layout import TiledLayout
from autotune.target import Target
from autotune.te import compute_bytes
from autotune.utils.check import Check
from autotune.workload import Candidate, Computed, Realisation


class SearchProblem:
    """The problem of a search: a graph of computes, its target and its key in records.

    It is a `Workload`, and all that rules, models, policies and records know of a task. A
    `SearchTask`, whose arguments it takes, is a problem that can be searched.
    """

    def __init__(
        self,
        func: str | Callable[..., object] | ComputeDAG | None = None,
        args: Sequence[object] | str | None = None,
        compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None,
        target: str | Target | None = None,
        target_host: str | Target | None = None,
        hardware_params: HardwareParams | None = None,
        layout_rewrite_option: LayoutRewriteOption | int | None = None,
        task_inputs: Mapping[str, object] | Sequence[str] | None = None,
        task_inputs_overwrite: bool = False,
        task_inputs_save_to_file: bool = False,
        desc: str = "",
    ) -> None:
        del task_inputs_save_to_file
        if isinstance(func, ComputeDAG):
            if compute_dag is None:  # the rest came by name
                workload_key = workload_key or _text(args)
            else:
                given: Any = (args, compute_dag, workload_key, target)
                workload_key, target, target_host, params = given
                hardware_params = hardware_params or params
            func, args, compute_dag = None, None, func
        self.target = _target(target, target_host)
        _check_kinds(workload_key, compute_dag, hardware_params, task_inputs)
        self.workload_key = _key(func, args, workload_key, compute_dag)
        self.compute_dag = compute_dag or ComputeDAG(workload_key_to_tensors(self.workload_key))
        self.hardware_params = hardware_params or HardwareParams(target=self.target)
        self.layout_rewrite_option = _rewrite_option(self.target, layout_rewrite_option)
        self.task_inputs = given_values(
            self.workload_key, task_inputs, bool(task_inputs_overwrite)
        )
        check_shapes(self.compute_dag.tensors, self.task_inputs)
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

    @property
    def continued_by(self) -> str:
        """What is done with a log."""
        return "PreloadMeasuredStates, or load_log_file of a TaskScheduler"

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
        """Bytes that must be moved at least, see `te.compute_bytes`."""
        return float(compute_bytes(self.compute_dag.tensors))

    def realise(self, candidate: object) -> Realisation:
        """Schedule the graph as a candidate says.

        Raises:
            SpaceError: it has no steps.
            ScheduleError: its steps do not fit the graph.
        """
        if not hasattr(candidate, "transform_steps"):
            raise SpaceError(f"search task {self.name!r}: expected a state, got {candidate!r}")
        option = self.layout_rewrite_option
        schedule, tensors = self.compute_dag.apply_steps_from_state(candidate, option)
        what = (schedule, list(tensors))
        arguments = self.compute_dag.tensors
        reference = Computed(arguments, values_by_place(arguments, self.task_inputs))
        return Realisation(what, reference, self.flop, self.bytes, self.layouts_of(candidate))

    @property
    def given_inputs(self) -> tuple[tuple[str, int], ...]:
        """Which values inputs are given: their names, and the identities of the objects."""
        return tuple([(name, id(value)) for name, value in self.task_inputs.items()])

    def rewriting(self, option: LayoutRewriteOption) -> SearchProblem:
        """Return the same problem with something else done about the order of weights."""
        other = copy(self)
        other.layout_rewrite_option = LayoutRewriteOption(option)
        return other

    def times_alike(self, option: int | None) -> bool:
        """Return whether a record with an option has the times of what this problem measures.

        Args:
            option: of the record; None where it is too old to say.
        """
        alike = option is None or option == self.layout_rewrite_option
        return alike or not self.compute_dag.free_inputs

    def layouts_of(self, candidate: HasSteps) -> tuple[TiledLayout | None, ...]:
        """Return the layouts of the arguments of a candidate's kernel.

        None means row-major, as all are unless the layout of weights is rewritten ahead of time.
        """
        if self.layout_rewrite_option is not LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED:
            return (None,) * len(self.compute_dag.tensors)
        return self.compute_dag.layouts_from_state(candidate)

    def examples(self) -> Iterable[RecordedState]:
        """Return the plain state."""
        return (RecordedState(()),)

    def default(self) -> RecordedState | None:
        """Return None: the untuned schedule follows from rules and is not a state."""
        return None

    def own(self, candidate: Candidate) -> Candidate:
        """Return a candidate of a log unchanged."""
        return candidate

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SearchProblem) and (
            (self.workload_key, self.target) == (other.workload_key, other.target)
        )

    def __hash__(self) -> int:
        return hash((self.workload_key, self.target))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.workload_key}, {self.target})"

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "task_inputs": {}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        if not is_registered(self.workload_key):
            register_workload_tensors(self.workload_key, self.compute_dag.tensors)


def _target(target: str | Target | None, target_host: str | Target | None) -> Target:
    if target is None:
        raise SearchTaskError("SearchTask: Must specify a target, such as target='cuda' or 'llvm'")
    return Target(target, target_host)


def _check_kinds(
    workload_key: object, compute_dag: object, hardware_params: object, task_inputs: object
) -> None:
    """Raise if an argument that was given is of another kind than its own."""
    check = Check(SearchTaskError, "SearchTask")
    if workload_key is not None:
        check.text("workload_key", workload_key, '["matmul", 64, 64, 64]')
    if compute_dag is not None:
        check.kind("compute_dag", compute_dag, ComputeDAG, "a ComputeDAG")
    if hardware_params is not None:
        check.kind("hardware_params", hardware_params, HardwareParams, "HardwareParams")
    if task_inputs is not None and not isinstance(task_inputs, Mapping):
        check.sequence("task_inputs", task_inputs, "values by name, or a list of names")


def _rewrite_option(
    target: Target, given: LayoutRewriteOption | int | None
) -> LayoutRewriteOption:
    """Return the option that was given, or the default of a target."""
    if given is None:
        return LayoutRewriteOption.get_target_default(target)
    if given not in list(LayoutRewriteOption):
        check = Check(SearchTaskError, "SearchTask")
        check.refuse("layout_rewrite_option", "one of 0, 1 and 2", given)
    return LayoutRewriteOption(given)


def _text(key: object) -> str | None:
    return key if isinstance(key, str) else None


def _key(
    func: str | Callable[..., object] | None,
    args: Sequence[object] | None,
    workload_key: str | None,
    dag: ComputeDAG | None,
) -> str:
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
