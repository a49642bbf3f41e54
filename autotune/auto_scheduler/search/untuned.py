"""The candidate that analytical cost models rank first, for graphs that were never tuned."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from autotune.auto_scheduler.graph.access import AccessAnalyzer
from autotune.auto_scheduler.graph.flop import count_flop
from autotune.auto_scheduler.layouts.layout_graph import LayoutRewriteOption
from autotune.auto_scheduler.problem.compute_dag import ComputeDAG
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.search.params import DEFAULT_PARAMS
from autotune.auto_scheduler.search.program_search import AnalyticalCostModel
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.errors import AutotuneError
from autotune.lowering import lower_schedule
from autotune.target import Target
from autotune.te.schedule import Schedule
from autotune.te.tensor import Tensor

# Fewer operations take less time than their compilation, whatever their loops are.
_FEWEST = 4e6
# Rows that are ranked, of all programs together, and of each at least.
_ROWS, _LEAST_ROWS = 2560, 32


def untuned_schedule(tensors: Sequence[Tensor], target: Target) -> Schedule | None:
    """Return the schedule with the lowest estimated time among a random sample.

    None if no sum is large enough for tiles, or if the schedule cannot be lowered. Equal tensors
    and machines give equal schedules.

    Args:
        tensors: inputs and outputs, which are the arguments of the kernel.
        target: a CPU or a CUDA device; only its kind and its limits matter.
    """
    try:
        task = _worth_estimating(tensors, target)
        if task is None:
            return None
        sketches = sketches_of(task, DEFAULT_PARAMS)
        best = _best(programs_of(task, sketches, DEFAULT_PARAMS))
        if best is None:
            return None
        schedule, given = task.compute_dag.apply_steps_from_state(best)
        limits = target.limits if target.backend.on_gpu else None
        lower_schedule(schedule, given, target_kind=target.backend.language, limits=limits)
    except AutotuneError:  # what is drawn may not fit what it is drawn for; a rule always does
        return None
    return schedule


def _worth_estimating(tensors: Sequence[Tensor], target: Target) -> SearchProblem | None:
    """Return the search of some tensors, if a stage of theirs reads much again and again.

    On a GPU all that it reads has to be: products of a matrix and a vector are as fast as memory.
    """
    graph = ComputeDAG(tensors)
    access = AccessAnalyzer(graph.ops)
    least = 2 if target.backend.on_gpu else 1
    sums = [op for op in graph.ops if op.reduce_axis and access.needs_multi_level_tiling(op)]
    if not any(access.inputs_read_again(op) >= least for op in sums):
        return None
    if not _FEWEST <= count_flop(graph.ops) < inf:
        return None
    as_it_is = LayoutRewriteOption.NO_REWRITE  # nobody is told to lay weights out
    return SearchProblem(compute_dag=graph, target=target, layout_rewrite_option=as_it_is)


def _best(programs: Sequence[AnalyticalCostModel]) -> RecordedState | None:
    rng = np.random.default_rng(0)
    least, best = inf, None
    share = max(_ROWS // max(len(programs), 1), _LEAST_ROWS)
    for model in programs:
        rows = RowSampler(model.program, model.limits(), rng).draw(share)
        if not model.program.slots or not len(rows):
            continue
        found = model(rows)
        seconds = np.where(found.feasible, found.seconds, inf)
        at = int(seconds.argmin())
        if seconds[at] < least:
            least, best = float(seconds[at]), model.program.candidate(rows[at])
    return best
