"""All converters, by the name of the operator."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.importers.onnx.call import Converter
from autotune.importers.onnx.operators import (
    activations,
    arithmetic,
    attention,
    control,
    convolution,
    elementwise,
    fourier,
    indexing,
    ngrams,
    normalisation,
    pooling,
    products,
    quantised,
    recurrent,
    reductions,
    resizing,
    shapes,
    sorting,
    vendor,
    vendor_attention,
)

_FAMILIES = (
    activations, arithmetic, attention, control, convolution, elementwise, fourier, indexing,
    ngrams, normalisation, pooling, products, quantised, recurrent, reductions, resizing, shapes,
    sorting,
)  # fmt: skip

CONVERTERS: Mapping[tuple[str, str], Converter] = {
    **{("", name): each for family in _FAMILIES for name, each in family.CONVERTERS.items()},
    **{("", name): each for name, each in vendor.OWN.items()},
    **{
        ("com.microsoft", name): each
        for family in (vendor.CONVERTERS, vendor_attention.CONVERTERS, quantised.VENDOR)
        for name, each in family.items()
    },
}
_OF_DATA = "the shape of its result depends on data; end the model before it by outputs=[...]"
_RANDOM = "random numbers are not supported"
# Why operators are not supported, where there is more to say than that.
REASONS: Mapping[str, str] = {
    "NonMaxSuppression": _OF_DATA,
    "Unique": _OF_DATA,
    "Bernoulli": _RANDOM,
    "Multinomial": _RANDOM,
    "RandomNormal": _RANDOM,
    "RandomNormalLike": _RANDOM,
    "RandomUniform": _RANDOM,
    "RandomUniformLike": _RANDOM,
    "StringNormalizer": "text is not supported",
}
# The same of all operators of a domain.
DOMAINS: Mapping[str, str] = {
    "com.microsoft.nchwc": "it is of one kind of CPU; save the model with ORT_ENABLE_EXTENDED",
    "ai.onnx.ml": "trees, linear models and encoders of tables are not supported",
    "ai.onnx.preview.training": "training is not supported",
}
