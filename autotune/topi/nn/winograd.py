"""Winograd's convolution: its transforms, and 3x3-like convolutions written with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import count, islice
from typing import SupportsFloat

import numpy as np

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, dtype_or_none, flag, integer, takes, tensor, text
from autotune.topi.arguments import dtype as dtype_of
from autotune.topi.nn.pad import Padding, pad
from autotune.topi.nn.window import Window, check_channels, extents
from autotune.topi.types import OneOrTwo
from autotune.topi.utils import static_shape
from autotune.utils.check import Check, is_whole
from autotune.utils.math import ceil_div

Matrix = list[list[Fraction]]
# Strides, padding and dilation.
Moves = tuple[OneOrTwo, Padding, OneOrTwo]
# Of filters, for tiles of a size.
Transform = Callable[[Tensor, int], Tensor]
# Sizes of filters and of tiles: beyond them the transforms lose too many digits.
SIZES = (2, 8)
_TILE, _KERNEL = integer(1, 8), integer(*SIZES)


def _numbers(check: Check, name: str, value: object) -> object:
    """Return rows of numbers, all of one length."""
    try:
        rows = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        rows = np.empty(0)
    if rows.ndim != 2 or not rows.size:
        check.refuse(name, "rows of numbers, all of one length", value)
    return value


def _points(number: int) -> list[Fraction]:
    """Return interpolation points of small size, which keep rounding errors small.

    The first five are TVM's, in its order, as it enters the keys of workloads.
    """

    def sequence() -> Iterator[Fraction]:
        yield from map(Fraction, ("0", "-1", "1", "1/2", "-2", "-1/2", "2"))
        for size in count(3):
            for value in (Fraction(size), Fraction(1, size)):
                yield value
                yield -value

    return list(islice(sequence(), number))


def _times_linear(polynomial: Sequence[Fraction], root: Fraction) -> list[Fraction]:
    """Multiply a polynomial (lowest power first) by (x - root)."""
    shifted = [Fraction(0), *polynomial]
    scaled = [*(-root * c for c in polynomial), Fraction(0)]
    return [a + b for a, b in zip(shifted, scaled, strict=True)]


@cache
def transform_fractions(tile: int, kernel: int) -> tuple[Matrix, Matrix, Matrix]:
    """Return A, B and G exactly: out = A^T ((G g) * (B^T d)) for a filter g and a tile of data d.

    Toom and Cook: filter and data are polynomials, evaluated at ``tile + kernel - 2`` points and
    at infinity, multiplied there, and interpolated; the transposed algorithm is the convolution.
    """
    size = tile + kernel - 1
    points = _points(size - 1)

    def powers(point: Fraction, length: int) -> list[Fraction]:
        return [point**j for j in range(length)]

    def last(length: int) -> list[Fraction]:
        return [Fraction(j == length - 1) for j in range(length)]

    filters, columns = [], []
    for i, point in enumerate(points):
        others = points[:i] + points[i + 1 :]
        scale, polynomial = Fraction(1), [Fraction(1)]
        for other in others:
            scale *= point - other
            polynomial = _times_linear(polynomial, other)
        if i == 0 and scale < 0:  # TVM's choice of a sign that cancels
            scale, polynomial = -scale, [-value for value in polynomial]
        filters.append([value / scale for value in powers(point, kernel)])
        columns.append([*polynomial, Fraction(0)])
    everything = [Fraction(1)]
    for point in points:
        everything = _times_linear(everything, point)
    a = [*(powers(point, tile) for point in points), last(tile)]
    b_transposed = [*columns, everything]
    b = [[b_transposed[j][i] for j in range(size)] for i in range(size)]
    return a, b, [*filters, last(kernel)]


@takes(matrix=_numbers, dtype=dtype_of, name=text)
def const_matrix(
    matrix: Sequence[Sequence[SupportsFloat]], dtype: str, name: str = "const_matrix"
) -> Tensor:
    """Make a tensor of known numbers, for unrolled loops to fold.

    Its value is spelled as TVM spells it, so that workload keys are those of its logs.
    """
    shape = (len(matrix), len(matrix[0]))

    def body(i: Expr, j: Expr) -> Expr:
        value: Expr = te.const(0.0, dtype)
        for row, numbers in enumerate(matrix):
            for column, number in enumerate(numbers):
                here = te.all(te.indexmod(i, shape[0]) == row, te.indexmod(j, shape[1]) == column)
                value = te.Select(here, te.const(float(number), dtype), value)
        return value

    result: Tensor = te.compute(shape, body, name=name, attrs={"const_matrix": True})
    return result


@takes(tile_size=_TILE, kernel_size=_KERNEL, out_dtype=dtype_of)
def winograd_transform_matrices(
    tile_size: int, kernel_size: int, out_dtype: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the matrices A, B and G of F(tile_size, kernel_size).

    A is [alpha, tile_size], B [alpha, alpha], G [alpha, kernel_size]; alpha is tile_size +
    kernel_size - 1.
    """
    a, b, g = transform_fractions(tile_size, kernel_size)
    return (
        const_matrix(a, out_dtype, "A"),
        const_matrix(b, out_dtype, "B"),
        const_matrix(g, out_dtype, "G"),
    )


def check_square(what: str, kernel: Tensor, rows: int, columns: int) -> None:
    """Refuse filters whose windows Winograd's matrices do not exist for."""
    if rows != columns or not is_whole(rows, *SIZES):
        asks(what).refuse("kernel", "square filters of 2x2 to 8x8", kernel)


@takes(tile_size=_TILE)
def conv2d_winograd_weight_transform(kernel: Tensor, tile_size: int) -> Tensor:
    """Transform filters [out, in, k, k] to [alpha, alpha, out, in] ahead of time."""
    what = "conv2d_winograd_weight_transform"
    co, ci, kh, kw = static_shape(what, "kernel", kernel, 4)
    check_square(what, kernel, kh, kw)
    alpha = tile_size + kh - 1
    _, _, g = winograd_transform_matrices(tile_size, kh, kernel.dtype)
    r_kh = te.reduce_axis((0, kh), name="r_kh")
    r_kw = te.reduce_axis((0, kw), name="r_kw")
    result: Tensor = te.compute(
        (alpha, alpha, co, ci),
        lambda eps, nu, o, c: te.sum(
            kernel[o, c, r_kh, r_kw] * g[eps, r_kh] * g[nu, r_kw], axis=[r_kh, r_kw]
        ),
        name="transform_weight",
    )
    return result


@dataclass(frozen=True)
class Tiles:
    """The tiles of a Winograd convolution in its output, and the elements that they read.

    Attributes:
        batch: images.
        out: rows ("H") and columns ("W") of the output.
        rows, columns: tiles of an image, down and across.
        size: rows, and columns, of a tile.
        alpha: rows, and columns, of the data that a tile reads.
        channels: of the output.
        before: rows above and columns left of the data that tiles read beyond it.
        after: those below and right.
    """

    batch: int
    out: Mapping[str, int]
    rows: int
    columns: int
    size: int
    alpha: int
    channels: int
    before: tuple[int, int]
    after: tuple[int, int]

    @property
    def number(self) -> int:
        """All tiles of all images."""
        return self.batch * self.rows * self.columns

    @property
    def kernel(self) -> int:
        """Rows, and columns, of the filters."""
        return self.alpha - self.size + 1


def tiles_of(
    what: str, images: Mapping[str, int], kernel: Tensor, weight: Tensor, size: int, moves: Moves
) -> Tiles:
    """Return the tiles of a convolution.

    Args:
        what: the operator, for messages.
        images: extents of the data by the letters N, C, H and W.
        kernel: the filters as they were given, for messages.
        weight: the transformed filters [alpha, alpha, out, in].
        size: rows, and columns, of a tile.
        moves: strides, padding and dilation.

    Raises:
        ExpressionError: these do not go together, or strides and dilation are not 1.
    """
    alpha, other, co, own_ci = static_shape(what, "kernel", weight, 4)
    check_channels(what, images["C"], own_ci)
    k = alpha - size + 1
    if alpha != other or not is_whole(k, *SIZES):
        asks(what).refuse("kernel", f"filters transformed for tile_size {size}", kernel)
    window = Window.of(what, {"H": k, "W": k}, *moves)
    for slide in window.slides.values():
        asks(what).whole("stride", slide.stride, most=1)
        asks(what).whole("dilation", slide.dilation, most=1)
    out = window.output(what, images)
    rows, columns = ceil_div(out["H"], size), ceil_div(out["W"], size)
    top, left = (window.slides[letter].before for letter in "HW")
    bottom = (rows - 1) * size + alpha - images["H"] - top
    right = (columns - 1) * size + alpha - images["W"] - left
    after = max(bottom, 0), max(right, 0)
    return Tiles(images["N"], out, rows, columns, size, alpha, co, (top, left), after)


def tiled(
    what: str, data: Tensor, layout: str, kernel: Tensor, transform: Transform | None, size: int,
    moves: Moves,
) -> tuple[Tiles, Tensor, Tensor]:  # fmt: skip
    """Return the tiles of a convolution, the data that they read, and the transformed filters.

    Args:
        what: the operator, for messages.
        data: images of a layout, such as NCHW.
        layout: the letters of the axes of ``data``.
        kernel: the filters.
        transform: makes [alpha, alpha, out, in] of them; None if they are that already.
        size: rows, and columns, of a tile.
        moves: strides, padding and dilation.

    Raises:
        ExpressionError: as of `tiles_of`.
    """
    images = extents(what, "data", data, layout)
    tensor(asks(what), "kernel", kernel)
    weight = transform(kernel, size) if transform else kernel
    tiles = tiles_of(what, images, kernel, weight, size, moves)
    before, after = (
        [dict(zip("HW", side, strict=True)).get(letter, 0) for letter in layout]
        for side in (tiles.before, tiles.after)
    )
    return tiles, pad(data, before, after, name="data_pad"), weight


@takes(out_dtype=dtype_or_none, pre_computed=flag, tile_size=_TILE)
def conv2d_winograd_nchw(
    data: Tensor,
    kernel: Tensor,
    stride: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo = 1,
    out_dtype: str | None = None,
    pre_computed: bool = False,
    tile_size: int = 4,
) -> Tensor:
    """Convolve as `conv2d_nchw` does, with fewer multiplications; stride and dilation are 1.

    Args:
        data: [batch, in, height, width].
        kernel: [out, in, k, k], or with ``pre_computed`` what `conv2d_winograd_weight_transform`
            made of it.
        stride: must be 1.
        padding: see `get_pad_tuple`.
        dilation: must be 1.
        out_dtype: dtype of products and sums; by default that of the data.
        pre_computed: whether the filters are transformed already.
        tile_size: outputs of one tile in each direction.
    """
    what = "conv2d_winograd_nchw"
    transform = None if pre_computed else conv2d_winograd_weight_transform
    moves = stride, padding, dilation
    tiles, padded, weight = tiled(what, data, "NCHW", kernel, transform, tile_size, moves)
    dtype = out_dtype or data.dtype
    a, b, _ = winograd_transform_matrices(tile_size, tiles.kernel, dtype)
    product = _product(_packed(padded, b, tiles), weight, tiles, dtype)
    inverse = _inverse(product, a, tiles)
    rows, columns, m = tiles.rows, tiles.columns, tiles.size

    def gather(n: Expr, o: Expr, y: Expr, x: Expr) -> Expr:
        p = n * (rows * columns) + te.indexdiv(y, m) * columns + te.indexdiv(x, m)
        return inverse[o, p, te.indexmod(y, m), te.indexmod(x, m)]

    shape = (tiles.batch, tiles.channels, tiles.out["H"], tiles.out["W"])
    result: Tensor = te.compute(shape, gather, name="output", tag="conv2d_nchw_winograd")
    return result


def _packed(padded: Tensor, b: Tensor, tiles: Tiles) -> Tensor:
    """Transform the tiles of the data [batch, in, height, width]."""
    ci, alpha = padded.shape[1], tiles.alpha
    rows, columns, m = tiles.rows, tiles.columns, tiles.size

    def element(c: Expr, p: Expr, eps: Expr, nu: Expr) -> Expr:
        n, rest = te.indexdiv(p, rows * columns), te.indexmod(p, rows * columns)
        y, x = te.indexdiv(rest, columns) * m, te.indexmod(rest, columns) * m
        return padded[n, c, y + eps, x + nu]

    tile = te.compute((ci, tiles.number, alpha, alpha), element, name="input_tile")
    r_a, r_b = te.reduce_axis((0, alpha), name="r_a"), te.reduce_axis((0, alpha), name="r_b")
    result: Tensor = te.compute(
        (alpha, alpha, ci, tiles.number),
        lambda eps, nu, c, p: te.sum(
            tile[c, p, r_a, r_b] * b[r_a, eps] * b[r_b, nu], axis=[r_a, r_b]
        ),
        name="data_pack",
    )
    return result


def _product(packed: Tensor, weight: Tensor, tiles: Tiles, dtype: str) -> Tensor:
    """Multiply data and filters for each point of the transform."""
    ci = te.reduce_axis((0, weight.shape[3]), name="ci")
    result: Tensor = te.compute(
        (tiles.alpha, tiles.alpha, tiles.channels, tiles.number),
        lambda eps, nu, o, p: te.sum(
            packed[eps, nu, ci, p].astype(dtype) * weight[eps, nu, o, ci].astype(dtype), axis=ci
        ),
        name="bgemm",
    )
    return result


def _inverse(product: Tensor, a: Tensor, tiles: Tiles) -> Tensor:
    """Transform the products back to tiles of the output."""
    alpha, m = tiles.alpha, tiles.size
    r_a, r_b = te.reduce_axis((0, alpha), name="r_a"), te.reduce_axis((0, alpha), name="r_b")
    result: Tensor = te.compute(
        (tiles.channels, tiles.number, m, m),
        lambda o, p, vh, vw: te.sum(
            product[r_a, r_b, o, p] * a[r_a, vh] * a[r_b, vw], axis=[r_a, r_b]
        ),
        name="inverse",
    )
    return result
