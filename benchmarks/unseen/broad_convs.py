"""Convolutions of every family, by classes: layouts, types, groups, stems, lines, volumes.

Each class has a generator of its own, so that more of one leave the others as they are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks.rivals import Named, picked_anew, set_up
from benchmarks.unseen.convs import Conv
from benchmarks.unseen.layer import HALVES, PLAIN, After, Arrays, Layer, Way

# Operations and elements between which a layer is drawn, so that it is worth a kernel and a run
# ends.
_LEAST_FLOP, _MOST_FLOP, _MOST_ELEMENTS = 2e6, 2e10, 4e7
_SIZES = ((1, 1), (3, 3), (3, 3), (5, 5), (1, 7), (7, 1), (2, 2), (3, 1))


def broad_convs(seed: int, of_each: int) -> Iterator[Layer]:
    """Yield ``of_each`` layers of each class, or the share of them that its weight is."""
    for name, (draw, weight) in _CLASSES.items():
        rng = random.Random(f"{seed} {name}")
        for _ in range(max(1, round(of_each * weight))):
            yield replace(draw(rng), kind=name)


def _extent(rng: random.Random, low: float, high: float) -> int:
    """Return an extent, evenly by its logarithm; half of those from 12 on are multiples of 8."""
    value = low * (high / low) ** rng.random()
    return round(value / 8) * 8 if rng.random() < 0.5 and value >= 12 else max(1, round(value))


def _after(rng: random.Random) -> After:
    if rng.random() < 1 / 3:
        return PLAIN
    activation = rng.choice(("none", "relu", "silu"))
    return After(True, rng.random() < 0.25, False, activation)


def _within(conv: Conv) -> bool:
    """Return whether a layer is neither trivial nor too long."""
    if min(conv.outputs) < 1 or not _LEAST_FLOP < conv.flop < _MOST_FLOP:
        return False
    return conv.n * conv.h * conv.w * max(conv.ci, conv.co) < _MOST_ELEMENTS


def _padded(size: tuple[int, int], dilation: int) -> tuple[int, int, int, int]:
    y, x = [(each - 1) * dilation // 2 for each in size]
    return (y, x, y, x)


def _unevenly(rng: random.Random, conv: Conv) -> tuple[int, int, int, int]:
    """Return padding drawn for each side, less than the reach of the filters."""
    y, x = [(each - 1) * hole for each, hole in zip(conv.size, conv.dilation, strict=True)]
    return (rng.randint(0, y), rng.randint(0, x), rng.randint(0, y), rng.randint(0, x))


def _image(
    layout: str, dtypes: tuple[str, ...], *, channels: tuple[float, float] = (3, 600),
    filters: tuple[float, float] = (8, 600), sizes: tuple[tuple[int, int], ...] = _SIZES,
    side: tuple[float, float] = (7, 150), strides: tuple[int, ...] = (1, 1, 2),
    dilations: tuple[int, ...] = (1, 1, 1, 2), groups: tuple[int, ...] = (1,),
    batches: tuple[int, ...] = (1, 1, 2, 8), uneven: bool = False,
) -> Callable[[random.Random], Layer]:  # fmt: skip
    """Return a draw of convolutions of images whose parameters lie within bounds."""

    def draw(rng: random.Random) -> Layer:
        while True:
            size, dilation, count = rng.choice(sizes), rng.choice(dilations), rng.choice(groups)
            h, step = _extent(rng, *side), rng.choice(strides)
            conv = Conv(
                rng.choice(batches), h, h + rng.choice((0, 0, 3)),
                max(1, _extent(rng, *filters) // count) * count,
                max(1, _extent(rng, *channels) // count) * count,
                size, (step, step), _padded(size, dilation), (dilation, dilation), count,
                layout or rng.choice(("NCHW", "NHWC")), rng.choice(dtypes), _after(rng),
            )  # fmt: skip
            conv = replace(conv, dtype="float32") if conv.layout == "NCHW" else conv
            conv = replace(conv, padding=_unevenly(rng, conv)) if uneven else conv
            if _within(conv):
                return conv.layer()

    return draw


def _depthwise(rng: random.Random) -> Layer:
    while True:
        side, h, step = rng.choice((3, 3, 5, 7)), _extent(rng, 7, 150), rng.choice((1, 1, 2))
        dilation = rng.choice((1, 1, 1, 2))
        conv = Conv(
            rng.choice((1, 1, 2, 8)), h, h + rng.choice((0, 0, 3)), rng.choice((1, 1, 1, 2)),
            _extent(rng, 8, 1000), (side, side), (step, step), _padded((side, side), dilation),
            (dilation, dilation), layout=rng.choice(("NCHW", "NHWC")),
            dtype=rng.choice(("float32", "float32", *HALVES)), after=_after(rng), depthwise=True,
        )  # fmt: skip
        if _within(conv):
            return conv.layer()


def _line(rng: random.Random) -> Layer:
    """Return a convolution along a line: of images of one row."""
    while True:
        taps, hole = rng.choice((3, 3, 5, 7, 11, 16)), rng.choice((1, 1, 1, 2, 8, 64))
        step = rng.choice((1, 1, 1, 2)) if hole == 1 else 1
        layout = rng.choice(("NCHW", "NCHW", "NHWC"))
        conv = Conv(
            rng.choice((1, 1, 4, 16)), 1, _extent(rng, 100, 20_000), _extent(rng, 8, 600),
            _extent(rng, 1, 600), (1, taps), (1, step), _padded((1, taps), hole), (1, hole),
            layout=layout, dtype="float32" if layout == "NCHW" else rng.choice(HALVES),
            after=_after(rng),
        )  # fmt: skip
        if _within(conv):
            return conv.layer()


def _volume(rng: random.Random) -> Layer:
    """Return a convolution of volumes of float32 by its name."""
    while True:
        size = rng.choice(((3, 3, 3), (3, 3, 3), (1, 3, 3), (3, 1, 1), (1, 1, 1)))
        n, depth, side = rng.choice((1, 1, 2)), _extent(rng, 4, 24), _extent(rng, 7, 64)
        ci, co, step = _extent(rng, 3, 128), _extent(rng, 8, 128), rng.choice((1, 1, 2))
        pads = tuple(each // 2 for each in size)
        flop = 2.0 * n * depth * side * side * ci * co * size[0] * size[1] * size[2] / step**3
        if _LEAST_FLOP < flop < _MOST_FLOP and n * depth * side**2 * max(ci, co) < _MOST_ELEMENTS:
            args = ((n, ci, depth, side, side), (co, ci, *size), (step,), pads)
            return by_name("conv3d.cuda", "conv3d", args, {"stride": step, "padding": pads})


def _planes(rng: random.Random) -> Layer:
    """Return a convolution of NCHW images of 16-bit floats by TVM's name."""
    while True:
        size, step, hole = rng.choice(_SIZES), rng.choice((1, 1, 2)), rng.choice((1, 1, 1, 2))
        n, side = rng.choice((1, 1, 2, 8, 32)), _extent(rng, 7, 120)
        count = rng.choice((1, 1, 1, 1, 1, 2))
        ci, co = (max(1, _extent(rng, 3, 600) // count) * count for _ in range(2))
        dtype, (top, left, bottom, right) = rng.choice(HALVES), _padded(size, hole)
        sizes = (n, ci, side, side), (co, ci // count, *size)
        moves = (step, step), (top, left, bottom, right), (hole, hole)
        if not _within(Conv(n, side, side, co, ci, size, *moves, count)):
            continue
        tensors = [("TENSOR", shape, dtype) for shape in sizes]
        name, groups = ("", ()) if count == 1 else ("group_", (count,))
        options = {"stride": step, "padding": (top, left), "dilation": hole, "groups": count}
        return by_name(
            f"{name}conv2d_nchw.cuda", "conv2d", (*tensors, *moves, *groups, dtype), options
        )


def _transposed(rng: random.Random) -> Layer:
    """Return a transposed convolution of float32 by its name."""
    while True:
        taps, step = rng.choice(((4, 2), (4, 2), (2, 2), (3, 2), (3, 1), (8, 4), (4, 1)))
        n, side = rng.choice((1, 1, 2, 8)), _extent(rng, 4, 100)
        ci, co = _extent(rng, 8, 512), _extent(rng, 1, 256)
        cut = (taps - step) // 2
        flop = 2.0 * n * side * side * ci * co * taps * taps
        if _LEAST_FLOP < flop < _MOST_FLOP and n * (side * step) ** 2 * co < _MOST_ELEMENTS:
            args = ((n, ci, side, side), (ci, co, taps, taps), (step,), (cut,))
            options = {"stride": step, "padding": cut}
            return by_name("conv2d_transpose.cuda", "conv_transpose2d", args, options)


def by_name(template: str, function: str, args: tuple[Any, ...], options: Any) -> Layer:
    """Return a layer of a function of PyTorch, which cuDNN runs in both layouts."""

    def compute(arrays: Arrays) -> Any:
        import torch

        set_up(torch)
        return getattr(torch.nn.functional, function)(*arrays, **options)

    def rivals(arrays: Arrays) -> Named:
        import torch

        last = torch.channels_last_3d if arrays[0].dim() == 5 else torch.channels_last
        for name, layout in (("NCHW", torch.contiguous_format), ("channels_last", last)):
            moved = [each.contiguous(memory_format=layout) for each in arrays]
            yield f"PyTorch {name}", picked_anew(partial(compute, moved))

    return Layer("", (Way(template, args),), compute, rivals)


_POINTS = ((1, 1),)
_STEMS = ((3, 3), (3, 3), (5, 5), (7, 7), (7, 7), (11, 11), (4, 4))
_CLASSES: dict[str, tuple[Callable[[random.Random], Layer], float]] = {
    "float32, NCHW": (_image("NCHW", ("float32",)), 1.5),
    "float32, NCHW, 1x1": (_image("NCHW", ("float32",), sizes=_POINTS, filters=(8, 2000),
                                  channels=(8, 2000), dilations=(1,)), 1.0),
    "float32, NHWC": (_image("NHWC", ("float32",)), 0.5),
    "TF32": (_image("NHWC", ("tf32",)), 1.5),
    "TF32, 1x1": (_image("NHWC", ("tf32",), sizes=_POINTS, filters=(8, 2000),
                         channels=(8, 2000), dilations=(1,)), 1.0),
    "16 bits": (_image("NHWC", HALVES), 2.0),
    "16 bits, 1x1": (_image("NHWC", HALVES, sizes=_POINTS, filters=(8, 2000),
                            channels=(8, 2000), dilations=(1,)), 1.0),
    "16 bits, few filters": (_image("NHWC", HALVES, filters=(1, 9), side=(14, 300),
                                    strides=(1,)), 0.6),
    "groups": (_image("", ("float32", "tf32", *HALVES), groups=(2, 3, 4, 8, 32),
                      channels=(32, 1000), filters=(32, 1000)), 1.5),
    "dilated": (_image("", ("float32", "tf32", *HALVES), dilations=(2, 2, 3, 4, 6, 12),
                       sizes=((3, 3), (3, 3), (5, 5), (1, 7)), strides=(1,)), 1.0),
    "stems": (_image("", ("float32", "tf32", *HALVES), channels=(1, 5), filters=(16, 128),
                     sizes=_STEMS, side=(64, 400), strides=(1, 2, 2, 4), dilations=(1,)), 1.0),
    "depthwise": (_depthwise, 1.5),
    "uneven padding": (_image("", ("float32", "tf32", *HALVES), batches=(1, 4, 16, 32),
                              uneven=True, sizes=_SIZES[1:]), 1.5),
    "16 bits, NCHW": (_planes, 1.0),
    "1-D": (_line, 1.0), "3-D": (_volume, 0.7), "transposed": (_transposed, 1.0),
}  # fmt: skip
