"""The interface of a sketch rule, and the context in which it is applied.

A sketch is a state whose structure is decided and whose lengths are open. Rules derive sketches
stage by stage, from the last to the first (Ansor, Zheng et al., OSDI 2020, section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from autotune.auto_scheduler.graph.access import AccessAnalyzer
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.states.state import State
from autotune.te.tensor import Operation

CPU_STRUCTURE = "SSRSRS"
GPU_STRUCTURE = "SSSRRSRS"

# A state, and the next stage to derive.
Derived = tuple[State, int]


class Condition(IntEnum):
    """Whether a rule is taken; the numbers are TVM's."""

    PASS = 0
    APPLY = 1
    APPLY_AND_SKIP_REST = 2


class SketchRule(Protocol):
    """One way to go on with a state at one of its stages.

    A rule keeps nothing between calls. To add one, write a class of this form and give it to
    `generate_sketches`, where it stands before all others.
    """

    @property
    def name(self) -> str:
        """Its name in messages."""

    def condition(self, context: SketchContext, state: State, stage_id: int) -> Condition:
        """Returns whether the rule applies, and whether later rules are tried too."""

    def apply(self, context: SketchContext, state: State, stage_id: int) -> Iterable[Derived]:
        """Returns the states that come of it; the one given must not be changed, but copied."""


@dataclass(frozen=True)
class SketchContext:
    """The context of rules besides the state: the task, the tiling structures, the reads.

    Attributes:
        search_task: for which sketches are made.
        cpu_structure: levels of tiles on a CPU, S of data axes and R of reductions, outermost
            first.
        gpu_structure: the same on a GPU, where the first three S are blocks, virtual threads and
            threads.
        policy: what custom rules are called with; by default this context.
    """

    search_task: SearchProblem
    cpu_structure: str = CPU_STRUCTURE
    gpu_structure: str = GPU_STRUCTURE
    policy: object = None
    _access: dict[tuple[Operation, ...], AccessAnalyzer] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def is_gpu(self) -> bool:
        """Whether kernels are launched over blocks of threads; as TVM, Mali counts as a CPU."""
        return is_gpu(self.search_task)

    @property
    def structure(self) -> str:
        """The tiling structure of the task's target."""
        return self.gpu_structure if self.is_gpu else self.cpu_structure

    def access(self, state: State) -> AccessAnalyzer:
        """Returns how the operations of a state read each other."""
        ops = tuple(state.stage_ops)
        if ops not in self._access:
            self._access[ops] = AccessAnalyzer(ops)
        return self._access[ops]


def is_gpu(task: SearchProblem) -> bool:
    """Returns whether a task is for a GPU of the kind that has rules of its own."""
    target = task.target
    return "gpu" in target.keys and target.device_name != "mali"
