"""Shapes for the C templates that nobody chose: drawn from a seed."""

from __future__ import annotations

import random
import re
from typing import Any

from benchmarks import memory_cpu
from benchmarks.memory_cpu import extent, until

Case = tuple[str, tuple[Any, ...]]
# Operations, and elements, of a drawn case at the most, so that a run of 60 ends in minutes.
_MOST_FLOP, _MOST_ELEMENTS = 1e9, 4e6
_TAPS = ((1, 1), (1, 1), (1, 1), (3, 3), (3, 3), (3, 3), (5, 5), (7, 7), (1, 7), (7, 1), (2, 2))


def drawn(seed: int, count: int) -> dict[str, Case]:
    """Return template and arguments of ``count`` cases of each kind by the name of the case."""
    found: dict[str, Case] = {}
    for draw in (_conv, _product, _softmax, _pool, *_KINDS_OF_CONVOLUTIONS, *memory_cpu.DRAWS):
        rng, wanted = random.Random(f"{seed} {draw.__name__}"), len(found) + count
        while len(found) < wanted:
            name, case = draw(rng)
            found[name] = case
    return found


def named(name: str) -> tuple[str, Case]:
    """Return the case of a name as benchmarks print it, by that name.

    ``gemm 64x3771x736``, ``conv 640->48 1x1 on 70, stride 1``.
    """
    numbers = tuple(map(int, re.findall(r"\d+", name)))
    match name.split()[0], numbers:
        case "gemm", (m, n, k):
            return f"gemm {m}x{n}x{k}", ("gemm_nn", (m, n, k))
        case "conv", (ci, co, kh, kw, size, *strides) if len(strides) <= 1:
            return _layer(ci, co, kh, kw, size, strides[0] if strides else 1)
    raise SystemExit(
        f"--shapes {name!r}: expected 'gemm 64x512x100' or 'conv 64->48 1x1 on 70, stride 2'"
    )


def _layer(ci: int, co: int, kh: int, kw: int, size: int, stride: int) -> tuple[str, Case]:
    args = 1, size, size, co, ci, kh, kw, stride, (kh // 2, kw // 2), True, True
    return f"conv {ci}->{co} {kh}x{kw} on {size}, stride {stride}", ("conv2d_nchw", args)


def _conv(rng: random.Random) -> tuple[str, Case]:
    def draw() -> tuple[Any, ...]:
        kh, kw = rng.choice(_TAPS)
        size, stride = extent(rng, 7, 130), rng.choice((1, 1, 2))
        co, ci = extent(rng, 8, 700), extent(rng, 3, 700)
        return ci, co, kh, kw, size, stride

    def fits(layer: tuple[Any, ...]) -> bool:
        ci, co, kh, kw, size, stride = layer
        return 4e6 < 2 * (size // stride) ** 2 * co * ci * kh * kw < _MOST_FLOP

    return _layer(*until(draw, fits))


def _depthwise(rng: random.Random) -> tuple[str, Case]:
    taps, stride = rng.choice(((3, 1), (3, 1), (3, 2), (5, 1), (5, 2), (7, 1)))
    size, channels = until(
        lambda: (extent(rng, 7, 130), extent(rng, 8, 1000)),
        lambda each: 1e4 < each[0] ** 2 * each[1] < _MOST_ELEMENTS,
    )
    name = f"depthwise {channels} {taps}x{taps} on {size}, stride {stride}"
    args = 1, size, size, channels, 1, taps, taps, stride, taps // 2, True, "relu"
    return name, ("depthwise_conv2d", args)


def _with(
    layer: tuple[int, ...], padding: tuple[int, ...], dilation: int = 1, groups: int = 1
) -> Case:
    """Return a layer of channels, filters, taps, size and stride with other arguments."""
    ci, co, taps, size, stride = layer
    plain = 1, size, size, co, ci, taps, taps, stride, padding, True, True
    return "conv2d_nchw", (*plain, False, False, False, False, dilation, groups)


def _grouped(rng: random.Random) -> tuple[str, Case]:
    def draw() -> tuple[int, ...]:
        groups, taps = rng.choice((2, 4, 8, 32)), rng.choice((1, 3, 3, 5))
        ci, co = groups * extent(rng, 2, 64), groups * extent(rng, 2, 64)
        return ci, co, taps, extent(rng, 7, 100), rng.choice((1, 1, 2)), groups

    *layer, groups = until(draw, lambda each: _is_short(each[:5], each[5]))
    ci, co, taps, size, stride = layer
    name = f"grouped {ci}->{co} {taps}x{taps} on {size}, stride {stride}, {groups} groups"
    return name, _with(tuple(layer), (taps // 2, taps // 2), groups=groups)


def _dilated(rng: random.Random) -> tuple[str, Case]:
    def draw() -> tuple[int, ...]:
        return extent(rng, 3, 500), extent(rng, 8, 500), rng.choice((3, 3, 5)), extent(rng, 14, 80)

    ci, co, taps, size = until(draw, lambda each: _is_short((*each, 1)))
    dilation = rng.choice((2, 2, 3, 4))
    far = taps // 2 * dilation
    name = f"dilated {ci}->{co} {taps}x{taps} on {size}, dilation {dilation}"
    return name, _with((ci, co, taps, size, 1), (far, far), dilation)


def _uneven(rng: random.Random) -> tuple[str, Case]:
    def draw() -> tuple[int, ...]:
        taps, stride = rng.choice((2, 3, 3, 4, 5)), rng.choice((1, 2, 2))
        return extent(rng, 3, 500), extent(rng, 8, 500), taps, extent(rng, 7, 113), stride

    layer = until(draw, _is_short)
    ci, co, taps, size, stride = layer
    before = (taps - 1) // 2
    padding = before, before, before + 1, before + 1  # as TensorFlow has it
    name = f"uneven {ci}->{co} {taps}x{taps} on {size}, stride {stride}"
    return name, _with(layer, padding)


def _is_short(layer: tuple[int, ...], groups: int = 1) -> bool:
    ci, co, taps, size, stride = layer
    return 4e6 < 2 * (size // stride) ** 2 * co * ci * taps * taps / groups < _MOST_FLOP


_KINDS_OF_CONVOLUTIONS = (_depthwise, _grouped, _dilated, _uneven)


def _product(rng: random.Random) -> tuple[str, Case]:
    def draw() -> tuple[int, ...]:
        return extent(rng, 1, 1500), extent(rng, 16, 4000), extent(rng, 16, 4000)

    m, n, k = until(draw, lambda each: 1e6 < 2 * each[0] * each[1] * each[2] < _MOST_FLOP)
    return f"gemm {m}x{n}x{k}", ("gemm_nn", (m, n, k))


def _softmax(rng: random.Random) -> tuple[str, Case]:
    def draw() -> tuple[int, int]:
        return extent(rng, 1, 5000), extent(rng, 4, 30000)

    rows, columns = until(draw, lambda each: 1e4 < each[0] * each[1] < _MOST_ELEMENTS)
    return f"softmax {rows}x{columns}", ("softmax", (rows, columns))


def _pool(rng: random.Random) -> tuple[str, Case]:
    def draw() -> tuple[Any, ...]:
        side, stride = rng.choice(((2, 2), (3, 1), (3, 2), (3, 2), (5, 1)))
        size, channels = extent(rng, 7, 224), extent(rng, 3, 1000)
        return rng.choice(("max", "avg")), 1, size, size, channels, side, stride, side // 2

    kind, _, size, _, channels, side, stride, _ = args = until(
        draw, lambda each: 1e4 < each[2] ** 2 * each[4] < _MOST_ELEMENTS
    )
    return f"{kind} pool {channels} {side}x{side} on {size}, stride {stride}", ("pool2d", args)
