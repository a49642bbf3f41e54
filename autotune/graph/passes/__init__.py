"""Passes: functions from a graph to a graph that computes the same."""

from autotune.graph.passes.alter_layout import alter_layout
from autotune.graph.passes.canonical import canonicalize_ops, simplify_expressions
from autotune.graph.passes.common_subexpressions import eliminate_common
from autotune.graph.passes.compose import compose
from autotune.graph.passes.epilogue import fold_affine
from autotune.graph.passes.fold_constant import fold_constant, folded
from autotune.graph.passes.fold_scale import (
    channels,
    fold_scale_backward,
    fold_scale_forward,
    vector_axis,
)
from autotune.graph.passes.image_layout import channels_first, channels_last
from autotune.graph.passes.integer_between import joined_residuals
from autotune.graph.passes.integer_layers import integer_layers
from autotune.graph.passes.merge_products import merge_products
from autotune.graph.passes.mixed_precision import MIXED, mixed_precision
from autotune.graph.passes.pipeline import (
    OWN,
    OWN_AS_WRITTEN,
    OWN_LAYERS,
    RELAY_CPU,
    RELAY_CUDA,
    RELAY_TEMPLATES,
    PassPipeline,
)
from autotune.graph.passes.reshapes_last import reshapes_last
from autotune.graph.passes.simplify_inference import simplify_inference
from autotune.graph.passes.slices_first import slices_first
from autotune.graph.passes.to_conv2d import to_conv2d
from autotune.graph.passes.to_dense import to_dense

__all__ = [
    "MIXED",
    "OWN",
    "OWN_AS_WRITTEN",
    "OWN_LAYERS",
    "RELAY_CPU",
    "RELAY_CUDA",
    "RELAY_TEMPLATES",
    "PassPipeline",
    "alter_layout",
    "canonicalize_ops",
    "channels",
    "channels_first",
    "channels_last",
    "compose",
    "eliminate_common",
    "fold_affine",
    "fold_constant",
    "fold_scale_backward",
    "fold_scale_forward",
    "folded",
    "integer_layers",
    "joined_residuals",
    "merge_products",
    "mixed_precision",
    "reshapes_last",
    "simplify_expressions",
    "simplify_inference",
    "slices_first",
    "to_conv2d",
    "to_dense",
    "vector_axis",
]
