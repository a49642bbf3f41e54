"""Layers with their parameters, named after the layer."""

from __future__ import annotations

from typing import Any

from autotune.graph import Value, Variable
from autotune.tvm.relay import nn
from autotune.tvm.relay.arguments import whole_numbers
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
    **kwargs: Any,
) -> Value:
    """Normalise by statistics that are parameters; gamma is one also where it is not used."""
    name = kwargs.pop("name")
    channels = (data.shape[kwargs.get("axis", 1)],)
    given = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    vectors = [
        each if each is not None else parameter(f"{name}_{key}", channels, data)
        for key, each in given.items()
    ]
    gamma, beta, moving_mean, moving_var = vectors
    result: Value = nn.batch_norm(data, gamma, beta, moving_mean, moving_var, **kwargs)[0]
    return result


def _filters(data: Value, kwargs: dict[str, Any], layouts: tuple[str, str]) -> tuple[int, ...]:
    """Return the shape of a convolution's weight."""
    images = dict(zip(kwargs.get("data_layout", layouts[0]), data.shape, strict=True))
    layout = kwargs.get("kernel_layout", layouts[1])
    groups = kwargs.get("groups", 1)
    letters = [letter for letter in layout if letter in "DHW"]
    window = whole_numbers("layer", "kernel_size", kwargs["kernel_size"])
    extents = {
        **dict(zip(letters, window, strict=True)),
        "O": kwargs["channels"],
        "I": images["C"] // groups,
    }
    return tuple(extents[letter] for letter in layout)


def conv2d(data: Value, weight: Value | None = None, **kwargs: Any) -> Value:
    """Convolve by a parameter ``name_weight``, or by the given one."""
    name = kwargs.pop("name")
    if weight is None:
        weight = parameter(f"{name}_weight", _filters(data, kwargs, ("NCHW", "OIHW")), data)
    return nn.conv2d(data, weight, **kwargs)


def conv3d(data: Value, weight: Value | None = None, **kwargs: Any) -> Value:
    """Convolve images of three dimensions by a parameter ``name_weight``."""
    name = kwargs.pop("name")
    if weight is None:
        weight = parameter(f"{name}_weight", _filters(data, kwargs, ("NCDHW", "OIDHW")), data)
    return nn.conv3d(data, weight, **kwargs)


def conv2d_transpose(data: Value, weight: Value | None = None, **kwargs: Any) -> Value:
    """Spread images by a parameter ``name_weight`` [in, out, height, width]."""
    name = kwargs.pop("name")
    if weight is None:
        weight = parameter(f"{name}_weight", _filters(data, kwargs, ("NCHW", "IOHW")), data)
    return nn.conv2d_transpose(data, weight, **kwargs)


def dense_add_bias(
    data: Value,
    weight: Value | None = None,
    bias: Value | None = None,
    units: int | None = None,
    **kwargs: Any,
) -> Value:
    """Apply a dense layer with parameters ``name_weight`` and ``name_bias``."""
    name = kwargs.pop("name")
    if weight is None:
        assert units is not None
        weight = parameter(f"{name}_weight", (units, data.shape[1]), data)
    if bias is None:
        bias = parameter(f"{name}_bias", weight.shape[:1], data)
    return nn.bias_add(nn.dense(data, weight, units, **kwargs), bias, axis=-1)


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """Return the layout of filters that goes with the images'."""
    pairs = {
        "NCHW": "OIHW", "NCDHW": "OIDHW", "NDHWC": "DHWIO",
        "NHWC": "HWOI" if is_depthwise else "HWIO",
    }  # fmt: skip
    return pairs[data_layout]
