"""Layers with their parameters, named after the layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autotune.graph import Value, Variable
from autotune.tvm.relay import nn
from autotune.tvm.relay.arguments import Numbers, whole_numbers
from autotune.tvm.relay.operators import var


def parameter(name: str, shape: tuple[int, ...], data: Value) -> Variable:
    """Declare a parameter in the dtype of the data."""
    return var(name, shape=shape, dtype=data.dtype)


def batch_norm_infer(
    data: Value,
    gamma: Value | None = None,
    beta: Value | None = None,
    moving_mean: Value | None = None,
    moving_var: Value | None = None,
    *,
    name: str,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Value:
    """Normalise by statistics that are parameters; gamma is one also where it is not used."""
    channels = (data.shape[axis],)
    given = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    vectors = [
        each if each is not None else parameter(f"{name}_{key}", channels, data)
        for key, each in given.items()
    ]
    gamma, beta, moving_mean, moving_var = vectors
    return nn.batch_norm(data, gamma, beta, moving_mean, moving_var, axis, epsilon, center, scale)[
        0
    ]


def _filters(
    images: dict[str, int], layout: str, kernel_size: Numbers, channels: int, groups: int
) -> tuple[int, ...]:
    """Return the shape of a convolution's weight."""
    letters = [letter for letter in layout if letter in "DHW"]
    window = whole_numbers("layer", "kernel_size", kernel_size)
    extents = {
        **dict(zip(letters, window, strict=True)),
        "O": channels,
        "I": images["C"] // groups,
    }
    return tuple(extents[letter] for letter in layout)


def _convolution(
    convolve: Callable[..., Value], images: str, filters: str, doc: str
) -> Callable[..., Value]:
    """Make the layer of a convolution, with the layouts that it has by default."""

    def layer(data: Value, weight: Value | None = None, *, name: str, **kwargs: Any) -> Value:
        if weight is None:
            extents = dict(zip(kwargs.get("data_layout", images), data.shape, strict=True))
            shape = _filters(
                extents, kwargs.get("kernel_layout", filters), kwargs["kernel_size"],
                kwargs["channels"], kwargs.get("groups", 1),
            )  # fmt: skip
            weight = parameter(f"{name}_weight", shape, data)
        return convolve(data, weight, **kwargs)

    layer.__name__ = layer.__qualname__ = convolve.__name__
    layer.__doc__ = f"{doc} by a parameter ``name_weight``, or by the given one."
    return layer


conv2d = _convolution(nn.conv2d, "NCHW", "OIHW", "Convolve images")
conv3d = _convolution(nn.conv3d, "NCDHW", "OIDHW", "Convolve images of three dimensions")
conv2d_transpose = _convolution(nn.conv2d_transpose, "NCHW", "IOHW", "Spread images")


def dense_add_bias(
    data: Value,
    weight: Value | None = None,
    bias: Value | None = None,
    units: int | None = None,
    *,
    name: str,
    out_dtype: str = "",
) -> Value:
    """Apply a dense layer with parameters ``name_weight`` and ``name_bias``."""
    if weight is None:
        assert units is not None
        weight = parameter(f"{name}_weight", (units, data.shape[1]), data)
    if bias is None:
        bias = parameter(f"{name}_bias", weight.shape[:1], data)
    return nn.bias_add(nn.dense(data, weight, units, out_dtype), bias, axis=-1)


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """Return the layout of filters that goes with the images'."""
    pairs = {
        "NCHW": "OIHW", "NCDHW": "OIDHW", "NDHWC": "DHWIO",
        "NHWC": "HWOI" if is_depthwise else "HWIO",
    }  # fmt: skip
    return pairs[data_layout]
