"""Features of the statements of states; see `feature`, which has TVM's names of all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.states.loop_state import HasSteps
from autotune.errors import AutotuneError
from autotune.features import per_store_feature_names, per_store_features

# Buffers of a statement that are told apart.
DEFAULT_MAX_N_BUFS = 5
DEFAULT_FEATURE_VEC_LEN = len(per_store_feature_names(DEFAULT_MAX_N_BUFS))

# An array of matrices, each of its own shape: scripts pick from it by masks and lists of indices.
Features = npt.NDArray[np.object_]


def get_per_store_feature_names(max_n_bufs: int | None = None) -> list[str]:
    """Return the names of the features, in their order."""
    return per_store_feature_names(max_n_bufs or DEFAULT_MAX_N_BUFS)


def get_per_store_features_from_states(
    states: Sequence[HasSteps], task: SearchProblem, max_n_bufs: int | None = None
) -> Features:
    """Return the features of states, a matrix each: one row for each buffer that is written.

    The matrix of a state that cannot be lowered has no rows.

    Args:
        states: with ``transform_steps``; all lengths have to be decided.
        task: whose states they are.
        max_n_bufs: buffers of a statement that are told apart; 5 by default.
    """
    most = max_n_bufs or DEFAULT_MAX_N_BUFS
    line = task.hardware_params.cache_line_bytes
    on_gpu = task.target.backend.on_gpu
    found = []
    for state in states:
        try:
            schedule, args = task.compute_dag.apply_steps_from_state(state)
            found.append(per_store_features(schedule, args, on_gpu, line, most))
        except AutotuneError:
            found.append(np.zeros((0, len(per_store_feature_names(most))), np.float32))
    return matrices(found)


def matrices(found: Sequence[npt.NDArray[np.float32]]) -> Features:
    """Return matrices as an array of one dimension, also where all have one shape."""
    features = np.empty(len(found), object)
    for i, matrix in enumerate(found):
        features[i] = matrix
    return features


def operations_of(features: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return how many operations each statement has, of all kinds together.

    Args:
        features: of a state, one row for each statement.
    """
    counts = features[:, : get_per_store_feature_names().index("vec_num")]
    return np.asarray((np.exp2(counts.astype(np.float64)) - 1.0).sum(axis=1))
