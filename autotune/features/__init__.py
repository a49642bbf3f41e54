"""Features of configurations for cost models.

`KnobFeatures` are made of the values of knobs alone; `LoopFeatures` of the lowered loops, as
AutoTVM's itervar and curve features; `per_store_features` are those of the auto-scheduler.
"""

from autotune.features.curve import get_buffer_curve_sample_flatten
from autotune.features.gpu_time import estimated_seconds
from autotune.features.itervar import (
    ana_lower,
    flatten_itervar_feature,
    get_flatten_name,
    get_itervar_feature,
    get_itervar_feature_flatten,
)
from autotune.features.knob import KnobFeatures, raw_feature_names, raw_features
from autotune.features.per_store import (
    per_store_feature_names,
    per_store_features,
)
from autotune.features.table import LoopFeatures, loop_feature_names, loop_features

__all__ = [
    "KnobFeatures",
    "LoopFeatures",
    "ana_lower",
    "estimated_seconds",
    "flatten_itervar_feature",
    "get_buffer_curve_sample_flatten",
    "get_flatten_name",
    "get_itervar_feature",
    "get_itervar_feature_flatten",
    "loop_feature_names",
    "loop_features",
    "per_store_feature_names",
    "per_store_features",
    "raw_feature_names",
    "raw_features",
]
