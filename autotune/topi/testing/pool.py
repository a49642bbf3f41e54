"""Pooling in numpy."""

from __future__ import annotations

import numpy as np

from autotune.topi.arguments import asks, pair
from autotune.topi.nn.pad import Padding, get_pad_tuple
from autotune.topi.types import Array, OneOrTwo


def pool2d_python(
    data: Array,
    kernel: OneOrTwo,
    stride: OneOrTwo,
    dilation: OneOrTwo = 1,
    padding: Padding = 0,
    pool_type: str = "max",
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Array:
    """Take the maximum or average of windows; the arguments are those of `topi.nn.pool2d`."""
    if layout == "NHWC":
        data = data.transpose(0, 3, 1, 2)
    check, two = asks("pool2d_python"), pair()
    size, steps = two(check, "kernel", kernel), two(check, "stride", stride)
    holes = two(check, "dilation", dilation)
    spread = [(k - 1) * d + 1 for k, d in zip(size, holes, strict=True)]
    top, left, bottom, right = get_pad_tuple(padding, spread, "pool2d_python")
    more = [s - 1 if ceil_mode else 0 for s in steps]
    sides = ((0, 0), (0, 0), (top, bottom + more[0]), (left, right + more[1]))

    def windows(values: Array, outside: float) -> Array:
        padded = np.pad(values, sides, constant_values=outside)
        view = np.lib.stride_tricks.sliding_window_view(padded, spread, axis=(2, 3))
        return view[:, :, :: steps[0], :: steps[1], :: holes[0], :: holes[1]]

    if pool_type == "max":
        low = -np.inf if data.dtype.kind == "f" else np.iinfo(data.dtype).min
        out = windows(data, float(low)).max(axis=(4, 5))
    else:
        total = windows(data, 0).sum(axis=(4, 5))
        present = windows(np.ones_like(data), 0).sum(axis=(4, 5))
        out = total / (size[0] * size[1] if count_include_pad else np.maximum(present, 1))
    out = np.ascontiguousarray(out.astype(data.dtype))
    return np.ascontiguousarray(out.transpose(0, 2, 3, 1)) if layout == "NHWC" else out


def adaptive_pool(
    data: Array, output_size: OneOrTwo, pool_type: str = "avg", layout: str = "NCHW"
) -> Array:
    """Pool to an output size that divides the input's."""
    at = layout.index("H")
    extents = pair()(asks("adaptive_pool"), "output_size", output_size)
    size = (data.shape[at] // extents[0], data.shape[at + 1] // extents[1])
    return pool2d_python(data, size, size, pool_type=pool_type, layout=layout)
