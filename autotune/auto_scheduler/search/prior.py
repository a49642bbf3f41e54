"""Trials of other workloads that ship: what every search for a GPU knows from the beginning.

They are rows of closed forms, the columns that describe their workloads, and the logarithm of
drafted over measured time, less its mean over the trials of the same workload:
`prior_gpu.npz`, which ``python -m benchmarks.scheduler_prior`` writes from logs. They were
measured on an H200.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from autotune.auto_scheduler.search.common_model import WHOLE, Column, Features, Shipped
from autotune.cost_model import Trees

FILE = Path(__file__).with_name("prior_gpu.npz")


@cache
def gpu_prior(without: tuple[str, ...] = ()) -> Shipped | None:
    """Return the trials that ship for GPUs, with trees of them; None where nothing is known.

    Args:
        without: workloads whose trials are left out, by name: to see what others teach of them.
    """
    if not FILE.exists():
        return None
    with np.load(FILE) as data:
        parts = [data["features"], data["descriptors"]]
        residuals, names = data["residuals"], data["workloads"]
    kept = ~np.isin(names, list(without))
    tiled = np.ones((len(residuals), 1), np.float32)
    features = np.concatenate([*parts, tiled], axis=1, dtype=np.float32)
    return shipped(features[kept], residuals[kept].astype(np.float64))


def shipped(features: Features, residuals: Column) -> Shipped | None:
    """Return some trials with trees of them, or None where there are none."""
    if not len(features):
        return None
    return Shipped(features, residuals, Trees.fit(features, residuals, "reg", WHOLE, 0))
