"""Winograd's convolution in layout NHWC, written for the auto-scheduler."""

from __future__ import annotations

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import dtype_or_none, flag, integer, takes
from autotune.topi.nn.pad import Padding
from autotune.topi.nn.winograd import Tiles, check_square, tiled, winograd_transform_matrices
from autotune.topi.types import OneOrTwo
from autotune.topi.utils import static_shape

_WHAT = "conv2d_winograd_nhwc"
# Names of axes that index constant matrices: the auto-scheduler unrolls them.
CONSTANT_INDICES = "auto_scheduler_simplify_const_tensor_indices"


@takes(out_dtype=dtype_or_none, pre_computed=flag, tile_size=integer(1, 8))
def conv2d_winograd_nhwc(
    data: Tensor,
    kernel: Tensor,
    stride: OneOrTwo,
    padding: Padding,
    dilation: OneOrTwo = 1,
    out_dtype: str | None = None,
    pre_computed: bool = False,
    tile_size: int = 4,
) -> Tensor:
    """Convolve as `conv2d_nhwc` does, with fewer multiplications; stride and dilation are 1.

    Args:
        data: [batch, height, width, in].
        kernel: [k, k, in, out], or with ``pre_computed`` the transformed filters
            [tile_size + k - 1, tile_size + k - 1, out, in].
        stride: must be 1.
        padding: see `get_pad_tuple`.
        dilation: must be 1.
        out_dtype: dtype of products and sums; by default that of the data.
        pre_computed: whether the filters are transformed already.
        tile_size: outputs of one tile in each direction.
    """
    transform = None if pre_computed else _transformed
    moves = stride, padding, dilation
    tiles, padded, weight = tiled(_WHAT, data, "NHWC", kernel, transform, tile_size, moves)
    dtype = out_dtype or data.dtype
    a, b, _ = winograd_transform_matrices(tile_size, tiles.kernel, dtype)
    product = _product(_packed(padded, b, tiles), weight, tiles, dtype)
    inverse = _inverse(product, a, tiles)
    result: Tensor = te.compute(
        (tiles.batch, tiles.out["H"], tiles.out["W"], tiles.channels),
        lambda n, h, w, co: inverse[
            te.indexmod(h, tile_size), te.indexmod(w, tile_size), _index(tiles, n, h, w), co
        ],
        name="conv2d_winograd",
        tag="conv2d_winograd_nhwc",
    )
    return result


def _corner(tiles: Tiles, p: Expr) -> tuple[Expr, Expr, Expr]:
    """Return the image of tile ``p``, and its first row and column."""
    row = te.indexmod(te.indexdiv(p, tiles.columns), tiles.rows)
    column = te.indexmod(p, tiles.columns)
    image = te.indexdiv(p, tiles.rows * tiles.columns)
    return image, row * tiles.size, column * tiles.size


def _index(tiles: Tiles, n: Expr, h: Expr, w: Expr) -> Expr:
    """Return the tile that an output belongs to."""
    row, column = te.indexdiv(h, tiles.size), te.indexdiv(w, tiles.size)
    return n * tiles.rows * tiles.columns + row * tiles.columns + column


def _transformed(kernel: Tensor, tile_size: int) -> Tensor:
    """Transform filters [k, k, in, out]."""
    kh, kw, ci, co = static_shape(_WHAT, "kernel", kernel, 4)
    check_square(_WHAT, kernel, kh, kw)
    alpha = tile_size + kh - 1
    _, _, g = winograd_transform_matrices(tile_size, kh, kernel.dtype)
    r_kh, r_kw = te.reduce_axis((0, kh), "r_kh"), te.reduce_axis((0, kw), "r_kw")
    result: Tensor = te.compute(
        (alpha, alpha, co, ci),
        lambda eps, nu, co, ci: te.sum(
            kernel[r_kh, r_kw, ci, co] * g[eps, r_kh] * g[nu, r_kw], axis=[r_kh, r_kw]
        ),
        name="kernel_pack",
    )
    return result


def _packed(padded: Tensor, b: Tensor, tiles: Tiles) -> Tensor:
    """Transform the tiles of the data."""
    alpha = b.shape[0]

    def element(eps: Expr, nu: Expr, p: Expr, ci: Expr) -> Expr:
        n, row, column = _corner(tiles, p)
        return padded[n, row + eps, column + nu, ci]

    shape = (alpha, alpha, tiles.number, padded.shape[3])
    tile = te.compute(shape, element, name="input_tile")
    r_a, r_b = te.reduce_axis((0, alpha), "r_a"), te.reduce_axis((0, alpha), "r_b")
    result: Tensor = te.compute(
        shape,
        lambda eps, nu, p, ci: te.sum(
            tile[r_a, r_b, p, ci] * b[r_a, eps] * b[r_b, nu], axis=[r_a, r_b]
        ),
        name="data_pack",
        attrs={CONSTANT_INDICES: ["eps", "nu", "r_a", "r_b"]},
    )
    return result


def _product(packed: Tensor, weight: Tensor, tiles: Tiles, dtype: str) -> Tensor:
    """Multiply data and filters for each point of the transform."""
    alpha, _, channels = weight.shape[:3]
    ci = te.reduce_axis((0, weight.shape[3]), "ci")
    result: Tensor = te.compute(
        (alpha, alpha, tiles.number, channels),
        lambda eps, nu, p, co: te.sum(
            packed[eps, nu, p, ci].astype(dtype) * weight[eps, nu, co, ci].astype(dtype), axis=[ci]
        ),
        name="bgemm",
        attrs={"layout_free_placeholders": [weight]},
    )
    return result


def _inverse(product: Tensor, a: Tensor, tiles: Tiles) -> Tensor:
    """Transform the products back to tiles of the output."""
    alpha, size = a.shape
    r_a, r_b = te.reduce_axis((0, alpha), "r_a"), te.reduce_axis((0, alpha), "r_b")
    result: Tensor = te.compute(
        (size, size, tiles.number, product.shape[3]),
        lambda vh, vw, p, co: te.sum(
            product[r_a, r_b, p, co] * a[r_a, vh] * a[r_b, vw], axis=[r_a, r_b]
        ),
        name="inverse",
        attrs={CONSTANT_INDICES: ["vh", "vw", "r_a", "r_b"]},
    )
    return result
