"""Models that learn from trials: boosted trees and a Gaussian process, and how they are judged."""

from autotune.cost_model.blas import one_thread
from autotune.cost_model.gaussian_process import GaussianProcess, Posterior, Prior, factor, product
from autotune.cost_model.xgb import Loss, Pool, Trees, TreeSettings

__all__ = [
    "GaussianProcess",
    "Loss",
    "Pool",
    "Posterior",
    "Prior",
    "TreeSettings",
    "Trees",
    "factor",
    "one_thread",
    "product",
]
