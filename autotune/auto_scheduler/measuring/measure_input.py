"""The input of a trial of the auto-scheduler: a state of a search task, as a record holds it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from autotune.auto_scheduler.layouts.layout_graph import LayoutRewriteOption
from autotune.auto_scheduler.problem.compute_dag import ComputeDAG
from autotune.auto_scheduler.problem.hardware_params import HardwareParams
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.states.loop_state import HasSteps
from autotune.auto_scheduler.states.recorded_state import RecordedState, recorded
from autotune.auto_scheduler.workload_registry import (
    workload_args,
    workload_key_to_tensors,
)
from autotune.errors import AutotuneError, TemplateError
from autotune.measure.types import MeasureInput as TrialInput
from autotune.record.fields import target_of
from autotune.record.outdated import names_only
from autotune.target import Target
from autotune.te.tensor import Tensor
from autotune.utils.check import shown

P = TypeVar("P", bound=SearchProblem)


@dataclass(frozen=True)
class RecordedTask:
    """A search task as a record holds it; the graph need not be known here.

    Attributes:
        workload_key: the key of the graph and its arguments.
        target_text: the target as the record has it.
        hardware_row: the numbers of `HardwareParams`; empty where the record has none.
        host_text: the target of the host; empty where there was none.
        layout_rewrite_option: see `LayoutRewriteOption`; None in records before v0.5.
        task_input_names: inputs whose values are not random.
    """

    workload_key: str
    target_text: str
    hardware_row: tuple[int, ...] = ()
    host_text: str = ""
    layout_rewrite_option: int | None = None
    task_input_names: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        """The target."""
        return target_of(self.target_text)

    @property
    def key(self) -> str:
        """The key of the graph and its arguments."""
        return self.workload_key

    @property
    def name(self) -> str:
        """The name of the function that makes the graph, or the hash of the graph."""
        return str(_parts(self.workload_key)[0])

    @property
    def args(self) -> tuple[object, ...]:
        """The arguments of the function, or the shapes of the graph's tensors."""
        return tuple(_parts(self.workload_key)[1:])

    @property
    def target_host(self) -> Target | None:
        """The target of the host, where one was given."""
        return target_of(self.host_text) if self.host_text else None

    @cached_property
    def hardware_params(self) -> HardwareParams:
        """Parameters of the device; the defaults of its target if a record has none."""
        if not self.hardware_row:
            return HardwareParams(target=self.target)
        return HardwareParams.from_row(self.hardware_row)

    @cached_property
    def compute_dag(self) -> ComputeDAG:
        """The graph.

        Raises:
            TemplateError: the workload is not registered in this process.
        """
        return ComputeDAG(self._tensors())

    def _tensors(self) -> list[Tensor]:
        """Run the function of the key, on arguments that anybody may have written."""
        if not names_only(workload_args(self.workload_key)):
            raise TemplateError(
                f"workload key {shown(self.workload_key)} of a record holds a text that could be "
                "code; no function is run on it"
            )
        try:
            return workload_key_to_tensors(self.workload_key)
        except AutotuneError:
            raise
        except Exception as error:  # the function is the user's, the arguments are the log's
            raise TemplateError(
                f"workload key {shown(self.workload_key)} of a record: its function takes other "
                f"arguments ({type(error).__name__}: {shown(str(error))})"
            ) from error

    def recovered(self, kind: type[P]) -> P:
        """Returns the task with its graph, ready to be searched or measured.

        Args:
            kind: as what: `SearchProblem`, or `SearchTask`, which has a script's methods.

        Raises:
            TemplateError: the workload is not registered in this process.
        """
        option = self.layout_rewrite_option
        return kind(
            workload_key=self.workload_key,
            compute_dag=self.compute_dag,
            target=self.target,
            target_host=self.target_host,
            hardware_params=self.hardware_params,
            layout_rewrite_option=None if option is None else LayoutRewriteOption(option),
            task_inputs=list(self.task_input_names),
        )


def _parts(key: str) -> list[object]:
    """Returns name and arguments of a key; a key that is no JSON list is its own name."""
    try:
        parts = json.loads(key)
    except (ValueError, RecursionError):
        return [key]
    named = isinstance(parts, list) and parts and isinstance(parts[0], str)
    return parts if named else [key]


@dataclass(frozen=True)
class MeasureInput:
    """A state of a search task, to be measured or as it was measured.

    Attributes:
        task: a `SearchTask`, or of a record that was read a `RecordedTask`.
        state: a `State`, or of a record that was read a `RecordedState`.
    """

    task: SearchProblem | RecordedTask
    state: HasSteps

    @property
    def target(self) -> Target:
        """The target that it was built for."""
        return self.task.target

    @property
    def key(self) -> str:
        """The key of the state among all of its task."""
        return self.config.key

    @property
    def config(self) -> RecordedState:
        """The state as a candidate: its steps."""
        return recorded(self.state)

    def trial(self) -> TrialInput:
        """Returns the trial that measuring knows.

        Raises:
            TemplateError: the workload is not registered in this process.
        """
        known = self.task
        if isinstance(known, RecordedTask):
            known = known.recovered(SearchProblem)
        return TrialInput(known.target, known, self.config)
