"""Set-up of the search of one task: its programs, their cost models, and what is known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.search.analytical.gpu import GpuCostModel
from autotune.auto_scheduler.search.effort import Effort
from autotune.auto_scheduler.search.models.descriptor import Descriptor, described
from autotune.auto_scheduler.search.models.prior import gpu_prior
from autotune.auto_scheduler.search.params import Param
from autotune.auto_scheduler.search.program_search import AnalyticalCostModel
from autotune.auto_scheduler.search.programs import programs_of
from autotune.auto_scheduler.search.proposer import Proposer
from autotune.auto_scheduler.search.task_group import SharedTrials, TaskGroup
from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.transform_steps import TransformStep


def proposer_of(
    task: SearchProblem,
    sketches: Sequence[StateObject],
    params: Mapping[str, Param],
    rng: np.random.Generator,
    known: Sequence[tuple[tuple[TransformStep, ...], float]] = (),
    ranks: bool = True,
    shared: SharedTrials | None = None,
) -> Proposer:
    """Return the proposer of the search of a task.

    Args:
        task: what is searched.
        sketches: of the task.
        params: as in `search.params.DEFAULT_PARAMS`.
        rng: draws.
        known: what was measured of the task: steps and seconds.
        ranks: whether candidates are ranked at all.
        shared: the other tasks that teach this one, and learn from it.
    """
    effort = Effort(
        population=2 * int(params["evolutionary_search_population"]),
        generations=int(params["evolutionary_search_num_iters"]),
    )
    cost_models = programs_of(task, sketches, params)
    membership = (
        _membership(task, cost_models, shared or SharedTrials()) if ranks and cost_models else None
    )
    made = Proposer(cost_models, rng, effort, ranks, membership)
    if known:
        made.learn(known)
    return made


def _membership(
    task: SearchProblem, cost_models: Sequence[AnalyticalCostModel], shared: SharedTrials
) -> tuple[TaskGroup, str, Descriptor]:
    """Return the group that a task belongs to, and what it is called there."""
    kinds = frozenset(type(each).__name__ for each in cost_models)
    shipped = gpu_prior() if all(isinstance(each, GpuCostModel) for each in cost_models) else None
    return shared.group((kinds, str(task.target)), shipped), task.workload_key, described(task)
