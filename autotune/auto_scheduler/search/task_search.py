"""The search of one task: rows of its programs, ranked by closed forms and what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from autotune.auto_scheduler.loop_state import StateObject
from autotune.auto_scheduler.search.programs import programs_of
from autotune.auto_scheduler.search.proposer import Effort, Proposer
from autotune.auto_scheduler.search_problem import SearchProblem
from autotune.auto_scheduler.transform_steps import TransformStep

# What is set of a search, by TVM's names.
Param = int | float | str
# Those of `SketchPolicy`.
DEFAULT_PARAMS: dict[str, Param] = {
    "eps_greedy": 0.05,
    "retry_search_one_round_on_empty": 1,
    "sample_init_min_population": 50,
    "sample_init_use_measured_ratio": 0.2,
    "evolutionary_search_population": 2048,
    "evolutionary_search_num_iters": 4,
    "evolutionary_search_mutation_prob": 0.85,
    "cpu_multi_level_tiling_structure": "SSRSRS",
    "gpu_multi_level_tiling_structure": "SSSRRSRS",
    "max_innermost_split_factor": 64,
    "max_vectorize_size": 16,
    "disable_change_compute_location": 0,
}


def proposer_of(
    task: SearchProblem,
    sketches: Sequence[StateObject],
    params: Mapping[str, Param],
    rng: np.random.Generator,
    known: Sequence[tuple[tuple[TransformStep, ...], float]] = (),
    ranks: bool = True,
) -> Proposer:
    """Return what proposes states of sketches.

    Args:
        task: what is searched.
        sketches: of the task.
        params: as in `DEFAULT_PARAMS`.
        rng: draws.
        known: what was measured of the task: steps and seconds.
        ranks: whether candidates are ranked at all.
    """
    effort = Effort(
        population=2 * int(params["evolutionary_search_population"]),
        generations=int(params["evolutionary_search_num_iters"]),
    )
    made = Proposer(programs_of(task, sketches, params), rng, effort, ranks)
    if known:
        made.learn(known)
    return made
