"""Convolutions, drawn by `broad_convs` from many seeds, that were once slower than the library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.unseen.broad_convs import by_name
from benchmarks.unseen.convs import Conv
from benchmarks.unseen.layer import PLAIN, After, Layer

_BIAS, _RELU, _SILU = After(True), After(True, activation="relu"), After(True, activation="silu")
_ADDED = After(True, residual=True, activation="relu")
_TF32: dict[str, Any] = {"layout": "NHWC", "dtype": "tf32"}
_BRAIN: dict[str, Any] = {"layout": "NHWC", "dtype": "bfloat16"}
_HALF: dict[str, Any] = {"layout": "NHWC", "dtype": "float16"}


def lost() -> Iterator[Conv | Layer]:
    """Yield the layers."""
    yield from _POINTS
    yield from _WINDOWS
    yield from _EACH_CHANNEL
    for args in (
        ((1, 7, 11, 24, 24), (16, 7, 3, 3, 3), (1,), (1, 1, 1)),
        ((1, 16, 18, 10, 10), (104, 16, 3, 1, 1), (2,), (1, 0, 0)),
        ((1, 24, 6, 52, 52), (119, 24, 1, 3, 3), (2,), (0, 1, 1)),
        ((2, 16, 11, 17, 17), (16, 16, 1, 3, 3), (1,), (0, 1, 1)),
        ((2, 32, 9, 59, 59), (14, 32, 1, 1, 1), (2,), (0, 0, 0)),
    ):
        yield by_name("conv3d.cuda", "conv3d", args, {"stride": args[2][0], "padding": args[3]})
    for args in (
        ((2, 287, 96, 96), (287, 7, 4, 4), (2,), (1,)),
        ((1, 173, 56, 56), (173, 4, 4, 4), (1,), (1,)),
        ((1, 200, 128, 128), (200, 6, 2, 2), (3,), (0,)),
        ((1, 128, 13, 13), (128, 32, 8, 8), (3,), (0,)),
        ((1, 100, 1, 1), (100, 512, 4, 4), (1,), (0,)),
        ((1, 96, 45, 40), (96, 16, 4, 4), (3,), (0,)),
        ((2, 272, 32, 32), (272, 4, 8, 8), (4,), (2,)),
    ):
        options = {"stride": args[2][0], "padding": args[3][0]}
        yield by_name("conv2d_transpose.cuda", "conv_transpose2d", args, options)


def _point(n: int, h: int, w: int, co: int, ci: int, after: After = PLAIN, step: int = 1,
           **rest: Any) -> Conv:  # fmt: skip
    return Conv(n, h, w, co, ci, (1, 1), (step, step), after=after, **rest)


def _each(n: int, h: int, w: int, ci: int, side: int, step: int = 1, **rest: Any) -> Conv:
    pads = (side // 2,) * 4
    return Conv(n, h, w, 1, ci, (side, side), (step, step), pads, depthwise=True, **rest)


_POINTS = (
    _point(8, 24, 24, 1115, 104, **_TF32),
    _point(8, 47, 47, 1481, 25, **_TF32),
    _point(2, 70, 70, 393, 15, _RELU, 2, **_TF32),
    _point(1, 131, 131, 270, 23),
    _point(8, 80, 83, 24, 214, _ADDED, 2),
    _point(2, 123, 123, 32, 346, _ADDED),
    _point(8, 99, 99, 24, 40, **_HALF),
    _point(1, 88, 91, 2, 73, **_BRAIN),
    _point(1, 114, 114, 1883, 15, **_TF32),
    _point(2, 104, 104, 92, 972, _ADDED, **_TF32),
    _point(2, 32, 35, 27, 216, **_HALF),
    _point(8, 24, 24, 117, 17, **_HALF),
    _point(1, 72, 75, 674, 1136, _BIAS, **_BRAIN),
    _point(1, 72, 72, 1449, 48, **_TF32),
    _point(2, 36, 36, 1449, 48, **_TF32),
)
_WINDOWS = (
    Conv(8, 88, 91, 40, 530, (7, 1), padding=(6, 0, 6, 0), dilation=(2, 2), after=_BIAS, **_TF32),
    Conv(8, 21, 21, 452, 298, (7, 1), padding=(6, 0, 6, 0), dilation=(2, 2), after=_SILU, **_TF32),
    Conv(1, 64, 64, 864, 328, (3, 3), padding=(1,) * 4, groups=8, layout="NHWC", after=_RELU),
    Conv(2, 112, 115, 128, 3, (11, 11), (2, 2), (5,) * 4, after=_BIAS, **_TF32),
    Conv(2, 97, 97, 24, 4, (11, 11), (2, 2), (5,) * 4, after=_SILU, **_TF32),
    Conv(8, 64, 64, 9, 19, (3, 3), padding=(1,) * 4, after=_RELU, **_TF32),
    Conv(8, 64, 64, 19, 9, (3, 3), padding=(1,) * 4, after=_RELU, **_TF32),
    Conv(64, 36, 41, 16, 6, (3, 3), padding=(1,) * 4, **_TF32),
    Conv(8, 88, 88, 223, 24, (3, 3), (2, 2), (1,) * 4, **_TF32),
    Conv(2, 63, 66, 40, 491, (7, 7), padding=(3,) * 4),
    Conv(2, 31, 31, 438, 540, (3, 3), padding=(1,) * 4, groups=3, **_BRAIN),
    Conv(8, 146, 149, 1, 73, (1, 7), padding=(0, 3, 0, 3), after=_ADDED, **_BRAIN),
    Conv(8, 85, 85, 293, 8, (3, 1), padding=(1, 0, 1, 0), after=_RELU),
    Conv(8, 66, 69, 130, 17, (1, 7), padding=(0, 9, 0, 9), dilation=(3, 3), layout="NHWC"),
    Conv(8, 200, 203, 119, 3, (4, 4), (2, 2), (1,) * 4, layout="NHWC"),
    Conv(8, 69, 69, 123, 432, (2, 2), after=After(True, True, activation="silu"), **_TF32),
    Conv(2, 80, 83, 412, 596, (1, 7), (2, 2), (0, 6, 0, 6), (2, 2), **_TF32),
    Conv(8, 76, 79, 212, 440, (5, 5), (2, 2), (2,) * 4, groups=4, **_TF32),
    Conv(8, 49, 49, 34, 218, (5, 5), padding=(2,) * 4, groups=2, after=_SILU),
    Conv(8, 56, 56, 128, 128, (3, 3), padding=(1,) * 4, groups=4, after=_RELU, **_HALF),
    Conv(8, 149, 149, 32, 32, (3, 3), after=_RELU, **_HALF),
)
_EACH_CHANNEL = (
    _each(8, 125, 125, 171, 3),
    _each(8, 125, 125, 171, 3, layout="NHWC"),
    _each(1, 40, 43, 360, 5),
)
