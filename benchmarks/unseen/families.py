"""Convolutions of families of networks, each in float32 and float16, for one image and for eight.

In float32 images are NCHW, in float16 NHWC, as exported networks and those for speed have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks.unseen.convs import Conv
from benchmarks.unseen.layer import After, Layer
from benchmarks.unseen.networks import spread

_BIAS, _RELU = After(True), After(True, activation="relu")
_SILU, _ADDED = After(True, activation="silu"), After(True, residual=True)
_F16 = "float16"
_BATCHES = (1, 8)
_TYPES = (("NCHW", "float32"), ("NHWC", _F16))


def of_families() -> Iterator[Layer]:
    """Yield layers, each with the name of a family of networks that has it."""
    for family, layers in _CONVOLUTIONS.items():
        for layer in layers:
            for layout, dtype in _TYPES:
                for n in _BATCHES:
                    made = replace(layer, n=n, layout=layout, dtype=dtype).layer()
                    yield replace(made, network=family)
    for n in _BATCHES:
        for given in _TRANSPOSED:
            yield replace(spread(n, *given), network="transposed")


def _square(h: int, co: int, ci: int, side: int, step: int = 1, *, pad: int | None = None,
            after: After = _RELU, **rest: Any) -> Conv:  # fmt: skip
    """Return a convolution of square filters, padded so that a stride of 1 keeps extents."""
    pad = (side - 1) // 2 if pad is None else pad
    return Conv(1, h, h, co, ci, (side, side), (step, step), (pad,) * 4, after=after, **rest)


def _each(h: int, channels: int, side: int, step: int = 1, after: After = _RELU) -> Conv:
    """Return a depthwise convolution."""
    return _square(h, 1, channels, side, step, after=after, depthwise=True)


def _oblong(h: int, co: int, ci: int, size: tuple[int, int]) -> Conv:
    """Return a convolution by filters with other rows than columns, which keeps extents."""
    y, x = size[0] // 2, size[1] // 2
    return Conv(1, h, h, co, ci, size, padding=(y, x, y, x), after=_RELU)


_CONVOLUTIONS: dict[str, tuple[Conv, ...]] = {
    "MobileNet-V3": (_each(112, 64, 3, 2), _each(56, 72, 5, 2), _each(14, 672, 5),
                     _each(7, 960, 5), _square(56, 24, 72, 1, after=_ADDED),
                     _square(14, 112, 480, 1, after=_BIAS)),
    "EfficientNet": (_square(224, 32, 3, 3, 2, after=_SILU), _each(112, 96, 3, 2, _SILU),
                     _each(28, 240, 5, after=_SILU), _square(14, 672, 112, 1, after=_SILU)),
    "squeeze and excite": (_square(1, 48, 1152, 1, after=_SILU),
                           _square(1, 1152, 48, 1, after=_BIAS)),
    "ConvNeXt": (_square(224, 96, 3, 4, 4, pad=0, after=_BIAS), _each(56, 96, 7, after=_BIAS),
                 _each(28, 192, 7, after=_BIAS), _each(14, 384, 7, after=_BIAS),
                 _each(7, 768, 7, after=_BIAS), _square(28, 384, 192, 2, 2, pad=0, after=_BIAS)),
    "ShuffleNet": (_square(28, 240, 240, 1, groups=3), _square(14, 960, 240, 1, groups=8),
                   _each(28, 116, 3, 2), _square(14, 232, 232, 1)),
    "RegNet, ResNeXt": (_square(56, 128, 128, 3, groups=32), _square(56, 64, 64, 3, groups=4),
                        _square(28, 192, 192, 3, groups=4), _square(14, 896, 896, 3, groups=8),
                        _square(28, 256, 256, 3, 2, groups=16)),
    "Inception": (_oblong(17, 192, 128, (1, 7)), _oblong(17, 192, 160, (7, 1)),
                  _square(35, 96, 64, 3), _square(149, 32, 32, 3, pad=0)),
    "ViT": (_square(224, 768, 3, 16, 16, pad=0, after=_BIAS),
            _square(224, 1024, 3, 14, 14, pad=0, after=_BIAS)),
    "DenseNet": (_square(28, 32, 128, 3, after=After()), _square(14, 128, 768, 1)),
}  # fmt: skip

# Images, extent, filters, channels, extent of a filter, stride, groups, and type.
_GROUPS = (
    (8, 56, 128, 128, 3, 1, 4, _F16), (1, 56, 128, 128, 3, 1, 4, _F16),
    (8, 28, 192, 192, 3, 1, 4, _F16), (1, 28, 192, 192, 3, 1, 4, _F16),
    (8, 14, 336, 336, 3, 1, 7, _F16), (8, 40, 120, 120, 3, 1, 3, _F16),
    (8, 28, 448, 448, 3, 1, 8, _F16), (1, 28, 448, 448, 3, 2, 8, _F16),
    (8, 14, 896, 896, 3, 1, 8, _F16), (4, 48, 96, 160, 5, 1, 2, _F16),
    (8, 28, 240, 240, 1, 1, 3, _F16), (8, 14, 1024, 1024, 3, 1, 32, _F16),
    (8, 56, 256, 256, 3, 1, 4, "tf32"), (8, 28, 512, 512, 3, 1, 8, "tf32"),
    (1, 28, 512, 512, 3, 1, 8, "tf32"), (8, 14, 768, 768, 3, 1, 3, "tf32"),
    (8, 14, 512, 448, 3, 1, 4, "tf32"), (2, 40, 320, 80, 3, 1, 5, "tf32"),
)  # fmt: skip


def groups() -> Iterator[Conv]:
    """Yield NHWC convolutions in groups of 16 to 256 channels, with bias and ReLU."""
    for n, h, co, ci, side, step, count, dtype in _GROUPS:
        made = _square(h, co, ci, side, step, groups=count, layout="NHWC", dtype=dtype)
        yield replace(made, n=n)


# Channels, extent, filters, extent of a filter, stride and padding.
_TRANSPOSED = ((512, 8, 256, 4, 2, 1), (256, 32, 128, 2, 2, 0), (64, 32, 3, 4, 2, 1),
               (128, 32, 64, 3, 2, 1))  # fmt: skip
