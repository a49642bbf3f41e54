"""Convolutions and products of 8-bit integers on tensor cores, with their requantisation.

Implicit GEMM (Chetlur et al., cuDNN, 2014) by ``mma.sync`` of bytes, or on Hopper by ``wgmma``, by
the knob of that name: `conv2d_int8.cu` says how.
NHWC images and filters OHWI are both K-major, as that instruction reads integers, and a product of
rows by rows of weights is the convolution of images of one pixel. Sums are exact in 32 bits, and
the end of the kernel makes bytes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from autotune import SourceKernel, Target, arg, call, workspace
from autotune.errors import TemplateError
from autotune.graph import ops
from autotune.kernel import Argument

from .. import common
from ..common import Array
from ..products.gemm_shape import LARGEST
from ..products.gemm_wgmma import ARCH, has_wgmma
from ..quantised import Requantisation, check_terms
from .window_shape import Window

OWNER = "conv2d_int8"
# Cycles of a scheduler for a product of fragments, of a warp for a copy that is gathered, between
# two K tiles, and of a kernel that adds ranges of K.
PRODUCT, COPY, K_TILE, REDUCTION = 7, 14, 180, 3500
# Products that ``wgmma`` adds in a cycle of a multiprocessor.
WGMMA_RATE = 3500
# Cycles until copies of a K tile that warpgroups multiply next have arrived.
ARRIVAL = 2000
# Multiply-adds from which on, and extent of K beyond which, ``wgmma`` is chosen untuned: 32 images
# of 28x28x128 by 128 filters of 3x3 took 20.2 us so on an H200 and 40.8 by ``mma.sync``; single
# images were faster by smaller tiles.
MANY_PRODUCTS, SHORT_SUM = 2**29, 128


@dataclass(frozen=True)
class IntegerConv2dNhwc:
    """``images`` of h x w pixels of ``ci`` channels NHWC, by ``co`` filters OHWI.

    Attributes:
        rows: whether it is a product of rows: arguments have two dimensions.
    """

    images: int
    h: int
    w: int
    co: int
    ci: int
    window: Window
    groups: int
    end: Requantisation
    rows: bool = False

    def __post_init__(self) -> None:
        if min(self.images, self.h, self.w, self.co, self.ci, self.groups) < 1:
            raise TemplateError(f"{OWNER}: extents must be at least 1, got {self}")
        if self.co % self.groups or self.ci % self.groups:
            raise TemplateError(f"{OWNER}: groups must divide both channels, got {self}")
        self.window.check(OWNER, self.h, self.w)
        check_terms(OWNER, self.k)
        if max(self.images * self.h * self.w * self.ci, self.m * self.co, self.k) > LARGEST:
            raise TemplateError(f"{OWNER}: kernels index by 32 bits, got {self}")

    @property
    def out(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        return self.window.results(self.h, self.w)

    @property
    def m(self) -> int:
        """Output pixels."""
        return self.images * self.out[0] * self.out[1]

    @property
    def n(self) -> int:
        """Filters of a group."""
        return self.co // self.groups

    @property
    def run(self) -> int:
        """Channels of a group, which are neighbours."""
        return self.ci // self.groups

    @property
    def k(self) -> int:
        """Products of a sum."""
        return self.window.taps * self.run

    @property
    def vec(self) -> int:
        """Bytes of a copy: 16, 8, 4, or 1 where channels are no multiples of these."""
        return next(size for size in (16, 8, 4, 1) if self.run % size == 0)

    @property
    def flop(self) -> int:
        """Two operations for each product."""
        return 2 * self.m * self.co * self.k

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        return sum(each.bytes for each in self.arguments())

    def arguments(self) -> list[Argument]:
        """Return data, weight, sums of weights, scale, shift, a residual if any, and out."""
        residual = self.end.residual
        data, weight, out = (
            ((self.images, self.ci), (self.co, self.k), (self.images, self.co))
            if self.rows
            else (
                (self.images, self.h, self.w, self.ci),
                (self.co, *self.window.size, self.run),
                (self.images, *self.out, self.co),
            )
        )
        return [
            arg("data", data, self.end.dtype),
            arg("weight", weight, "int8"),
            arg("weights", (self.co,), "int32"),
            arg("scale", (self.co,)),
            arg("shift", (self.co,)),
            *([arg("residual", out, residual.dtype)] if residual is not None else []),
            arg("out", out, self.end.out_dtype, role="out"),
        ]

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""
        top, left, bottom, right = self.window.padding
        around = ((0, 0), (0, 0), (top, bottom), (left, right))
        op = ops.Conv2d(self.window.stride, (0, 0), self.window.dilation, self.groups)
        images = (self.images, self.h, self.w, self.ci)
        filters = (self.co, *self.window.size, self.run)

        def convolution(data: Array, weight: Array, weights: Array, *rest: Array) -> Array:
            planes = data.reshape(images).astype("float64").transpose(0, 3, 1, 2)
            wide = np.pad(planes, around, constant_values=self.end.zero)
            kernel = weight.reshape(filters).astype("float64").transpose(0, 3, 1, 2)
            sums = op.reference(wide, kernel).transpose(0, 2, 3, 1)
            without_sign = sums.reshape(self.arguments()[-1].shape) + self.end.offset * weights
            return self.end.finished(without_sign, weights, *rest)

        return convolution


class _Tiling:
    """The sizes that follow from a shape and a choice of knobs."""

    def __init__(self, shape: IntegerConv2dNhwc, choice: Mapping[str, int]) -> None:
        c = choice
        self.warps = c["warps_m"] * c["warps_n"] * c["warps_k"]
        self.threads = 32 * self.warps
        self.tile_m, self.tile_n = (
            c["warps_m"] * c["frags_m"] * 16,
            c["warps_n"] * c["frags_n"] * 8,
        )
        self.per_split = c["chunk"] * common.ceil_div(shape.k, c["chunk"] * c["split"])
        self.k_tiles = self.per_split // c["chunk"]
        staged = c["stages"] * (self.tile_m + self.tile_n) * (c["chunk"] + 16)
        self.sums = 4 * c["frags_m"] * c["frags_n"]
        exchanged = 4 * self.sums * self.threads // c["warps_k"] * (c["warps_k"] // 2)
        self.shared_bytes = common.larger(staged, exchanged)
        self.vectors = c["chunk"] // max(shape.vec, 4)
        passes = common.ceil_div(self.tile_m * self.vectors, self.threads)
        self.registers = self.sums + 4 * c["frags_m"] + 2 * c["frags_n"] + 3 * passes + 40
        self.blocks = (
            common.ceil_div(shape.m, self.tile_m),
            common.ceil_div(shape.n, self.tile_n),
        )


def candidates(shape: IntegerConv2dNhwc) -> dict[str, list[int]]:
    """Return the values each knob may take for a shape."""
    return {
        "wgmma": [0, 1],
        "warps_m": [1, 2, 4, 8],
        "warps_n": [1, 2, 4],
        "warps_k": [1, 2, 4],
        "frags_m": [1, 2, 4],
        "frags_n": [4, 8, 16, 32],
        "chunk": [32, 64, 128, 256],
        "stages": [2, 3, 4, 6],
        "split": common.up_to(max(1, shape.k // 128), (1, 2, 4, 8)),
    }


def violation(shape: IntegerConv2dNhwc, choice: Mapping[str, int], target: Target) -> str | None:
    """Return why a choice cannot run or is sure to be slow, or None."""
    return common.first_broken(_rules(choice, shape, target))


def _rules(
    choice: Mapping[str, int], shape: IntegerConv2dNhwc, target: Target
) -> list[tuple[bool, str]]:
    """Return the rules of `violation`; choices may be arrays of them."""
    tiling, c = _Tiling(shape, choice), choice
    panels = (c["chunk"] == 128) & (c["stages"] > 2) & (c["frags_m"] < 4) & (c["frags_n"] > 4)
    groups = (c["warps_m"] % 4 == 0) & (c["warps_n"] * c["warps_k"] == 1)
    return [
        *common.limit_rules(tiling, target.limits),
        ((c["wgmma"] > 0) & (not has_wgmma(target)), "no wgmma"),
        ((c["wgmma"] > 0) & ((panels & groups) < 1), "no tiles of wgmma"),
        ((c["wgmma"] < 1) & ((c["frags_n"] > 16) | (c["warps_m"] > 4)), "tiles of wgmma"),
        (c["chunk"] < 32 * c["warps_k"], "warps without a part of the K tile"),
        (tiling.vectors > tiling.threads, "rows longer than a block"),
        (tiling.tile_m >= 2 * max(shape.m, 16), "rows beyond the output"),
        (tiling.tile_n >= 2 * max(shape.n, 32), "columns beyond the output"),
        (c["stages"] > common.larger(tiling.k_tiles + 1, 2), "more stages than K tiles"),
        (c["chunk"] >= 2 * max(shape.k, 32), "a K tile beyond the reduction"),
        (tiling.per_split * (c["split"] - 1) >= shape.k, "an empty range of K"),
    ]


def estimate(shape: IntegerConv2dNhwc, choice: Mapping[str, int], target: Target) -> float:
    """Return a rough number of cycles: products, loads of fragments, copies, and their waits."""
    tiling, c = _Tiling(shape, choice), choice
    blocks = tiling.blocks[0] * tiling.blocks[1] * c["split"] * shape.groups
    occupied = common.occupancy(
        target, blocks, tiling.threads, tiling.registers, tiling.shared_bytes
    )
    busy = occupied.together * tiling.warps
    steps = c["chunk"] // 32 // c["warps_k"]
    products = PRODUCT * c["frags_m"] * c["frags_n"] * max(busy / 4, 1.0)
    loads = 4 * (c["frags_m"] + c["frags_n"] / 2) * busy
    if c["wgmma"]:
        products, loads = 32 * tiling.tile_m * tiling.tile_n * occupied.together / WGMMA_RATE, 0
    wait = ARRIVAL / (c["stages"] - 2) if c["wgmma"] else 500 / (c["stages"] - 1)
    copies = (tiling.tile_m + tiling.tile_n / 2) * tiling.vectors / tiling.threads
    narrow = 4 if shape.vec == 1 else 1
    copying = COPY * narrow * copies * max(busy / 4, 1.0)
    moved = occupied.together * (tiling.tile_m + tiling.tile_n) * c["chunk"] / 48
    each = max(steps * max(products, loads) + copying, moved)
    waits = K_TILE + wait / occupied.together
    ends = 300 + 2 * tiling.sums * occupied.together * (c["warps_k"] > 1) + tiling.tile_m
    reducing = 0.0
    if c["split"] > 1:
        reducing = REDUCTION + 4 * c["split"] * shape.m * shape.co / (
            20 * occupied.multiprocessors
        )
    return occupied.waves * (tiling.k_tiles * max(each, waits) + each + ends) + reducing


def default_choice(shape: IntegerConv2dNhwc, target: Target) -> dict[str, int]:
    """Return a good guess for a shape that was never tuned: the best of a fixed sample."""
    many = shape.groups * shape.m * shape.n * shape.k >= MANY_PRODUCTS
    whole = _by_wgmma(shape, target) if many and shape.k > SHORT_SUM and shape.vec == 16 else []
    if whole:
        return min(whole, key=lambda choice: estimate(shape, choice, target))
    return common.best_drawn_at_once(
        {**candidates(shape), "wgmma": [0], "warps_m": [1, 2, 4], "frags_n": [4, 8, 16]},
        5000,
        partial(_rules, shape=shape, target=target),
        partial(estimate, shape, target=target),
    )


def _by_wgmma(shape: IntegerConv2dNhwc, target: Target) -> list[dict[str, int]]:
    """Return all choices by ``wgmma``, which are few."""
    fixed = {"wgmma": 1, "warps_n": 1, "warps_k": 1, "chunk": 128}
    open_ = {name: values for name, values in candidates(shape).items() if name not in fixed}
    every = (dict(zip(open_, values, strict=True)) for values in product(*open_.values()))
    choices = [fixed | choice for choice in every if choice["warps_m"] >= 4]
    return [choice for choice in choices if violation(shape, choice, target) is None]


def kernel(shape: IntegerConv2dNhwc, choice: Mapping[str, int]) -> SourceKernel:
    """Return the kernel of a choice of knobs."""
    s, tiling, c = shape, _Tiling(shape, choice), choice
    split = c["split"] > 1
    rest = [each.name for each in s.arguments()[2:]]
    grid = (tiling.blocks[0] * tiling.blocks[1], c["split"], s.groups)
    first = ["data", "weight", *(["partial"] if split else rest)]
    calls = [call(OWNER, first, grid, tiling.threads, tiling.shared_bytes)]
    if split:
        blocks = common.ceil_div(s.m * s.co, 128 * (1 if s.co % 4 else 4))
        calls.append(call(f"{OWNER}_reduce", ["partial", *rest], blocks, 128))
    size = (c["split"], s.m * s.co)
    tiles = common.defines(
        int8=1, bfloat16=0, m=s.m, n=s.n, k=s.k, group_ci=s.run, vec=s.vec,
        threads=tiling.threads, k_per_split=tiling.per_split, **c,
    )  # fmt: skip
    texts = ["barriers.h", "wgmma.h", "wgmma_int8.h"] if c["wgmma"] else []
    flags = [f"-arch={ARCH}"] if c["wgmma"] else []
    return SourceKernel(
        OWNER,
        common.text("device.h", "mma.h", *texts, "requantise.h", "conv2d_int8.cu"),
        defines={**definitions(s), **tiles, **s.end.defines()},
        args=s.arguments(),
        calls=calls,
        workspace=[workspace("partial", size, "int32")] if split else [],
        reference=s.reference(),
        flags=(*flags, *common.CUDA_FLAGS),
        language="cuda",
    )


def definitions(s: IntegerConv2dNhwc) -> dict[str, int | str]:
    """Return the parameters of kernel texts that follow from the shape alone."""
    w, (oh, ow) = s.window, s.out
    top, left, _, _ = w.padding
    beyond = [
        (size - 1) * step + reach - before - extent
        for size, step, reach, before, extent in zip(
            s.out, w.stride, w.reach, (top, left), (s.h, s.w), strict=True
        )
    ]
    return {
        **common.defines(
            co=s.co, ci=s.ci, ih=s.h, iw=s.w, oh=oh, ow=ow, kw=w.size[1], sy=w.stride[0],
            sx=w.stride[1], dy=w.dilation[0], dx=w.dilation[1], pad_top=top, pad_left=left,
            cut=max(beyond) > 0, terms=s.k,
        ),
        "DATA_ZERO_WORD": f"{(s.end.zero & 0xFF) * 0x01010101:#x}u",
    }  # fmt: skip
