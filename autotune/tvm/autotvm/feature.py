"""AutoTVM's `feature`: features of loops."""

from typing import TYPE_CHECKING

from autotune.features import (
    ana_lower,
    flatten_itervar_feature,
    get_buffer_curve_sample_flatten,
    get_flatten_name,
    get_itervar_feature,
    get_itervar_feature_flatten,
)
from autotune.tvm.names import resolver

__all__ = [
    "ana_lower",
    "flatten_itervar_feature",
    "get_buffer_curve_sample_flatten",
    "get_flatten_name",
    "get_itervar_feature",
    "get_itervar_feature_flatten",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
