"""Models that learn from trials: boosted trees, a Gaussian process, and metrics of rankings.

They take arrays of features and know nothing of configurations: `autotune.tuner.models` and
`autotune.auto_scheduler.search.models` use them. `Trees` are fitted by xgboost, `StoredTrees` ship
fitted, and `metrics` has AutoTVM's curves of recall.
"""

from typing import TYPE_CHECKING

from autotune.cost_model.blas import one_thread
from autotune.cost_model.stored_trees import StoredTrees
from autotune.cost_model.xgb import Loss, PredictionRows, Trees, TreeSettings, load_meanwhile
from autotune.utils.names import lazy

if TYPE_CHECKING:
    from autotune.cost_model.gaussian_process import (
        GaussianProcess,
        HyperPrior,
        Posterior,
        factor,
        finite_product,
    )

__all__ = [
    "GaussianProcess",
    "HyperPrior",
    "Loss",
    "Posterior",
    "PredictionRows",
    "StoredTrees",
    "TreeSettings",
    "Trees",
    "factor",
    "finite_product",
    "load_meanwhile",
    "one_thread",
]

# Loaded when first used: the process imports scipy, which takes half a second.
_PROCESS = "GaussianProcess HyperPrior Posterior factor finite_product"

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__, {name: f"{__name__}.gaussian_process:{name}" for name in _PROCESS.split()}
    )
