"""The search of one task: rows of its programs, ranked by closed forms and what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.search.arm import ClosedForms
from autotune.auto_scheduler.search.forms.gpu import GpuForms
from autotune.auto_scheduler.search.models.descriptor import Descriptor, described
from autotune.auto_scheduler.search.models.prior import gpu_prior
from autotune.auto_scheduler.search.params import Param
from autotune.auto_scheduler.search.programs import programs_of
from autotune.auto_scheduler.search.proposer import Effort, Proposer
from autotune.auto_scheduler.search.shared import SharedTrials, TaskGroup
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
    """Return what proposes states of sketches.

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
    forms = programs_of(task, sketches, params)
    membership = _membership(task, forms, shared or SharedTrials()) if ranks and forms else None
    made = Proposer(forms, rng, effort, ranks, membership)
    if known:
        made.learn(known)
    return made


def _membership(
    task: SearchProblem, forms: Sequence[ClosedForms], shared: SharedTrials
) -> tuple[TaskGroup, str, Descriptor]:
    """Return the group that a task belongs to, and what it is called there."""
    kinds = frozenset(type(each).__name__ for each in forms)
    shipped = gpu_prior() if all(isinstance(each, GpuForms) for each in forms) else None
    return shared.group((kinds, str(task.target)), shipped), task.workload_key, described(task)
