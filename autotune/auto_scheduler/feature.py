"""TVM's features of states, for scripts and models that use them; our search does not.

They are computed by `autotune.features.per_store`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.measuring.measure_input import MeasureInput
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.records.file import RecordReader
from autotune.auto_scheduler.search_task import recover_measure_input
from autotune.auto_scheduler.state_features import (
    DEFAULT_FEATURE_VEC_LEN,
    DEFAULT_MAX_N_BUFS,
    Features,
    get_per_store_feature_names,
    get_per_store_features_from_states,
    matrices,
)
from autotune.errors import AutotuneError
from autotune.measure import MeasureResult


def get_per_store_features_from_measure_pairs(
    inputs: Sequence[MeasureInput],
    results: Sequence[MeasureResult],
    skip_first_n_feature_extraction: int = 0,
    max_n_bufs: int | None = None,
) -> tuple[Features, npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Return the features of trials, their throughputs, and which task each is of.

    A throughput is the least time of its task, of all trials given, over the trial's own; 0 for
    one that failed. Trials of workloads that are not registered are passed over.

    Args:
        inputs: the trials.
        results: what came of them.
        skip_first_n_feature_extraction: trials at the beginning whose matrices stay empty.
        max_n_bufs: buffers of a statement that are told apart; 5 by default.
    """
    features: list[npt.NDArray[np.float32]] = []
    seconds: list[float] = []
    numbers: list[int] = []
    tasks: dict[tuple[str, str], tuple[int, SearchProblem]] = {}
    width = len(get_per_store_feature_names(max_n_bufs))
    for i, (inp, result) in enumerate(zip(inputs, results, strict=True)):
        key = (inp.task.workload_key, str(inp.target))
        if key not in tasks:
            try:
                found = recover_measure_input(inp).task
            except AutotuneError:
                continue
            if not isinstance(found, SearchProblem):
                continue
            tasks[key] = (len(tasks), found)
        number, task = tasks[key]
        skipped = i < skip_first_n_feature_extraction or not result.ok
        features.append(
            np.zeros((0, width), np.float32)
            if skipped
            else get_per_store_features_from_states([inp.state], task, max_n_bufs)[0]
        )
        seconds.append(result.seconds if result.ok else np.inf)
        numbers.append(number)
    which, times = np.array(numbers, np.int32), np.array(seconds)
    least = {n: times[which == n].min() for n in set(numbers)}
    rates = [
        least[n] / s if np.isfinite(s) else 0.0 for n, s in zip(numbers, seconds, strict=True)
    ]
    return matrices(features), np.array(rates), which


def get_per_store_features_from_file(
    filename: str | Path, max_lines: int, max_n_bufs: int | None = None
) -> tuple[Features, npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Return the same of the first lines of a log; all of them where ``max_lines`` is negative."""
    inputs, results = RecordReader(filename).read_lines(max_lines)
    return get_per_store_features_from_measure_pairs(inputs, results, 0, max_n_bufs)


__all__ = [
    "DEFAULT_FEATURE_VEC_LEN",
    "DEFAULT_MAX_N_BUFS",
    "get_per_store_feature_names",
    "get_per_store_features_from_file",
    "get_per_store_features_from_measure_pairs",
    "get_per_store_features_from_states",
]
