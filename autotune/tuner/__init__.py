"""Search strategies, the loop that feeds them, and what can watch it."""

from autotune.tuner import callback
from autotune.tuner.annealing_tuner import SimulatedAnnealingTuner
from autotune.tuner.droplet_tuner import DropletTuner
from autotune.tuner.ga_tuner import GATuner
from autotune.tuner.index_based_tuner import GridSearchTuner, RandomTuner
from autotune.tuner.tuner import Tuner
from autotune.tuner.xgboost_tuner import XGBTuner

__all__ = [
    "DropletTuner",
    "GATuner",
    "GridSearchTuner",
    "RandomTuner",
    "SimulatedAnnealingTuner",
    "Tuner",
    "XGBTuner",
    "callback",
]
