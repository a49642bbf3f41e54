"""The pretrained cost model of searches for a GPU, with the trials that it was fitted to.

The file `prior_gpu.npz`, which ``python -m benchmarks.auto_scheduler.prior`` writes from logs,
holds trials that were measured on an H200: for each the features of the analytical model, those of
its workload, and the target, the logarithm of estimated over measured time less its mean over the
trials of the same workload; and the trees that were fitted to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.auto_scheduler.search.models.common_model import (
    WHOLE,
    Column,
    Features,
    ShippedTrials,
)
from autotune.cost_model import StoredTrees, Trees

FILE = Path(__file__).with_name("prior_gpu.npz")


@cache
def gpu_prior(without: tuple[str, ...] = ()) -> ShippedTrials | None:
    """Return the trials that ship for GPUs, with trees of them; None where nothing is known.

    Args:
        without: workloads whose trials are left out, by name: to see what others teach of them.
            Trees of the others are fitted then.
    """
    if not FILE.exists():
        return None
    with np.load(FILE) as data:
        features, residuals = training_columns(data)
        kept = ~np.isin(data["workloads"], list(without))
        if kept.all():
            return ShippedTrials(features, residuals, StoredTrees(data["trees"].tobytes()))
    return shipped_prior(features[kept], residuals[kept])


def training_columns(data: Mapping[str, npt.NDArray[np.generic]]) -> tuple[Features, Column]:
    """Return the training data of trees from the trials in a file: features and residuals."""
    tiled = np.ones((len(data["residuals"]), 1), np.float32)
    features = np.concatenate([data["features"], data["descriptors"], tiled], axis=1)
    return features.astype(np.float32), data["residuals"].astype(np.float64)


def shipped_prior(features: Features, residuals: Column) -> ShippedTrials | None:
    """Return some trials with trees of them, or None where there are none."""
    if not len(features):
        return None
    return ShippedTrials(features, residuals, fitted(features, residuals))


def fitted(features: Features, residuals: Column) -> Trees:
    """Return trees of some trials."""
    return Trees.fit(features, residuals, "reg", WHOLE, 0)
