"""AutoTVM's `feature`: features of loops."""

from autotune.features import (
    ana_lower,
    flatten_itervar_feature,
    get_buffer_curve_sample_flatten,
    get_flatten_name,
    get_itervar_feature,
    get_itervar_feature_flatten,
)

__all__ = [
    "ana_lower",
    "flatten_itervar_feature",
    "get_buffer_curve_sample_flatten",
    "get_flatten_name",
    "get_itervar_feature",
    "get_itervar_feature_flatten",
]
