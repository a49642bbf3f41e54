"""Models that learn from trials: boosted trees and a Gaussian process, and how they are judged."""

from typing import TYPE_CHECKING

from autotune.cost_model.blas import one_thread
from autotune.cost_model.stored_trees import StoredTrees
from autotune.cost_model.xgb import Loss, Pool, Trees, TreeSettings, load_meanwhile
from autotune.utils.names import lazy

if TYPE_CHECKING:
    from autotune.cost_model.gaussian_process import (
        GaussianProcess,
        Posterior,
        Prior,
        factor,
        product,
    )

__all__ = [
    "GaussianProcess",
    "Loss",
    "Pool",
    "Posterior",
    "Prior",
    "StoredTrees",
    "TreeSettings",
    "Trees",
    "factor",
    "load_meanwhile",
    "one_thread",
    "product",
]

# Loaded when first used: the process imports scipy, which takes half a second.
_PROCESS = "GaussianProcess Posterior Prior factor product"

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__, {name: f"{__name__}.gaussian_process:{name}" for name in _PROCESS.split()}
    )
