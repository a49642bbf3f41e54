"""Search strategies, the tuning loop, its callbacks and displays.

A `Tuner` proposes configurations, and `Tuner.tune` measures them in a `Run` (`loop`) that ends by
its `Stop` with a `TuneResult`. `models` has what model-based tuners learn, `callback` what is
called for each result.
"""

from typing import TYPE_CHECKING

from autotune.measure.objective import Objective
from autotune.tuner import callback
from autotune.tuner.annealing_tuner import SimulatedAnnealingTuner
from autotune.tuner.ask_tell import AskTellTuner
from autotune.tuner.ga_tuner import GATuner
from autotune.tuner.index_based_tuner import GridSearchTuner, RandomTuner
from autotune.tuner.loop.result import TuneResult
from autotune.tuner.loop.run import Run
from autotune.tuner.loop.stop import Stop
from autotune.tuner.loop.strategy import Strategy
from autotune.tuner.loop.watchers import Callback
from autotune.tuner.model_based_tuner import CostModel, ModelBasedTuner, ModelOptimizer
from autotune.tuner.replay import Recording, ReplayBuilder, ReplayRunner
from autotune.tuner.sa_model_optimizer import SimulatedAnnealingOptimizer
from autotune.tuner.tuner import Tuner
from autotune.tuner.xgboost_cost_model import XGBoostCostModel
from autotune.utils.names import lent

if TYPE_CHECKING:
    from autotune.tuner.auto_tuner import AutoTuner
    from autotune.tuner.droplet_tuner import DropletTuner
    from autotune.tuner.tune_classes import OnClass, tune_classes
    from autotune.tuner.xgboost_tuner import XGBTuner

__all__ = [
    "AskTellTuner",
    "AutoTuner",
    "Callback",
    "CostModel",
    "DropletTuner",
    "GATuner",
    "GridSearchTuner",
    "ModelBasedTuner",
    "ModelOptimizer",
    "Objective",
    "OnClass",
    "RandomTuner",
    "Recording",
    "ReplayBuilder",
    "ReplayRunner",
    "Run",
    "SimulatedAnnealingOptimizer",
    "SimulatedAnnealingTuner",
    "Stop",
    "Strategy",
    "TuneResult",
    "Tuner",
    "XGBTuner",
    "XGBoostCostModel",
    "callback",
    "tune_classes",
]

# Loaded when first used: they import scipy, which takes half a second.
_HOMES = {
    "AutoTuner": "autotune.tuner.auto_tuner:AutoTuner",
    "DropletTuner": "autotune.tuner.droplet_tuner:DropletTuner",
    "OnClass": "autotune.tuner.tune_classes:OnClass",
    "tune_classes": "autotune.tuner.tune_classes:tune_classes",
    "XGBTuner": "autotune.tuner.xgboost_tuner:XGBTuner",
}

if not TYPE_CHECKING:
    __getattr__ = lent(__name__, "gridsearch_tuner metric", _HOMES)
