"""Convolutions, pooling and products of batches, as torch computes them."""

import math

import torch
from torch.nn import functional


def _pair(given, count=2):
    return tuple(given) * count if len(given) == 1 else tuple(given)


def _sides(padding, dims=2):
    """Return (before, after) of each axis."""
    if len(padding) == 1:
        return [tuple(padding) * 2] * dims
    if len(padding) == dims:
        return [(p, p) for p in padding]
    return list(zip(padding[:dims], padding[dims:], strict=True))


def _padded(x, sides, value=0.0):
    flat = [n for side in reversed(sides) for n in side]
    return functional.pad(x, flat, value=value)


def conv(x, w, a, dims):
    layout = a.get("data_layout", "NC" + "DHW"[-dims:])
    last = layout[1] != "C"
    if last:
        x = x.movedim(-1, 1)
        w = w.movedim((-1, -2), (0, 1))
    function = {2: functional.conv2d, 3: functional.conv3d}[dims]
    out = function(
        _padded(x, _sides(a.get("padding", (0,)), dims)),
        w,
        stride=_pair(a.get("strides", (1,)), dims),
        dilation=_pair(a.get("dilation", (1,)), dims),
        groups=a.get("groups", 1),
    )
    return out.movedim(1, -1) if last else out


def conv_transpose(x, w, a):
    out = functional.conv_transpose2d(x, w, stride=_pair(a.get("strides", (1,))))
    (top, bottom), (left, right) = _sides(a.get("padding", (0,)))
    return out[:, :, top : out.shape[2] - bottom, left : out.shape[3] - right]


def _windows(x, a, outside):
    """Return the windows of images: (n, c, rows, columns, elements)."""
    if a["layout"] == "NHWC":
        x = x.movedim(-1, 1)
    size, step = _pair(a["pool_size"]), _pair(a["strides"])
    sides = _sides(a["padding"])
    if a["ceil_mode"]:
        sides = [(b, e + s - 1) for (b, e), s in zip(sides, step, strict=True)]
    x = _padded(x, sides, outside)
    x = x.unfold(2, size[0], step[0]).unfold(3, size[1], step[1])
    return x.flatten(4)


def _back(x, a):
    return x.movedim(1, -1) if a["layout"] == "NHWC" else x


def max_pool(x, a):
    if not x.is_floating_point():
        x = x.long()
    least = -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min
    return _back(_windows(x, a, least).amax(-1), a)


def avg_pool(x, a):
    total = _windows(x, a, 0.0).sum(-1)
    counted = _windows(torch.ones_like(x), a, float(a["count_include_pad"])).sum(-1)
    return _back(total / counted.clamp(min=1), a)


def batch_matmul(x, y, a):
    x = x.mT if a["transpose_a"] else x
    y = y.mT if a["transpose_b"] else y
    return x @ y
