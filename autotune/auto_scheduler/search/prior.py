"""What trials of other workloads say of a draft: where it is too short, where too long.

The trials that ship are rows of closed forms with the logarithm of drafted over measured time,
less its mean over the trials of the same workload: `prior_gpu.npz`, which
``python -m benchmarks.scheduler_prior`` writes from logs. They were measured on an H200.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.cost_model import Trees, TreeSettings

FILE = Path(__file__).with_name("prior_gpu.npz")
_SETTINGS = TreeSettings(rounds=60, depth=5, rate=0.15, threads=1)


@cache
def gpu_prior(without: tuple[str, ...] = ()) -> Trees | None:
    """Return the trees that correct drafts for GPUs; None where nothing is known.

    Args:
        without: workloads whose trials are left out, by name: to see what others teach of them.
    """
    if not FILE.exists():
        return None
    with np.load(FILE) as data:
        features, residuals, names = data["features"], data["residuals"], data["workloads"]
    kept = ~np.isin(names, list(without))
    return fitted(features[kept].astype(np.float32), residuals[kept].astype(np.float64))


def fitted(features: npt.NDArray[np.float32], residuals: npt.NDArray[np.float64]) -> Trees | None:
    """Return trees of some trials, or None where there are none."""
    if not len(features):
        return None
    return Trees.fit(features, residuals, "reg", _SETTINGS, 0)


def residuals_of(
    drafts: npt.NDArray[np.float64], seconds: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return how much faster than drafted trials of one workload were, against their mean."""
    found = np.log2(drafts) - np.log2(seconds)
    return np.asarray(found - found.mean())
