"""Models that learn from trials: boosted trees and a Gaussian process, and how they are judged."""

from autotune.cost_model.gaussian_process import GaussianProcess, Posterior, Prior
from autotune.cost_model.xgb import Pool, Trees, TreeSettings

__all__ = ["GaussianProcess", "Pool", "Posterior", "Prior", "TreeSettings", "Trees"]
