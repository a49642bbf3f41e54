"""TVM's operators of `topi.nn` that move elements, and pooling of one and three dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import te, topi
from autotune.errors import ExpressionError
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import plain_integer
from autotune.topi.nn import pool2d
from autotune.topi.utils import static_shape
from autotune.tvm.topi.image import resize2d
from autotune.utils.check import Check

__all__ = ["depth_to_space", "mirror_pad", "pool1d", "pool3d", "space_to_depth", "upsampling"]


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """Surround a tensor with its mirror image.

    Args:
        data: the tensor.
        pad_before, pad_after: elements before and after it, for each dimension.
        mode: ``"SYMMETRIC"`` repeats the elements at the edge, ``"REFLECT"`` does not.
        name: of the result.

    Raises:
        ExpressionError: a padding is missing, or larger than what is mirrored.
    """
    check = Check(ExpressionError, "mirror_pad")
    check.one_of("mode", mode, ("SYMMETRIC", "REFLECT"))
    edge = int(mode == "SYMMETRIC")
    extents = static_shape("mirror_pad", "data", data, data.ndim)
    after = pad_before if pad_after is None else pad_after
    for side, given in (("pad_before", pad_before), ("pad_after", after)):
        wanted = f"{data.ndim} paddings, one for each dimension"
        if len(check.sequence(side, given, wanted)) != data.ndim:
            check.refuse(side, wanted, given)
        for extent, elements in zip(extents, given, strict=True):
            check.whole(side, elements, least=0, most=extent - 1 + edge)

    def mirrored(*i: Expr) -> Expr:
        places = []
        for index, extent, before, behind in zip(i, extents, pad_before, after, strict=True):
            place = index - before
            if before:
                place = te.if_then_else(place < 0, -place - edge, place)
            if behind:
                last = 2 * extent - 2 + edge
                place = te.if_then_else(index - before >= extent, last - (index - before), place)
            places.append(place)
        return data(*places)

    shape = [n + b + a for n, b, a in zip(extents, pad_before, after, strict=True)]
    found: Tensor = te.compute(shape, mirrored, name=name)
    return found


def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Move the pixels of each square block to the channels of one pixel."""
    check = Check(ExpressionError, "space_to_depth")
    images, (n, c, h, w) = _channels_first(check, data, layout)
    b = check.whole("block_size", block_size, least=1)
    if h % b or w % b:
        check.refuse("block_size", f"a number that divides images of {h}x{w}", block_size)
    blocks = topi.reshape(images, (n, c, h // b, b, w // b, b))
    moved = topi.transpose(blocks, (0, 3, 5, 1, 2, 4))
    return _in_layout(topi.reshape(moved, (n, c * b * b, h // b, w // b)), layout)


def depth_to_space(
    data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR"
) -> Tensor:
    """Move channels of each pixel to a square block of pixels.

    Args:
        data: images.
        block_size: rows and columns of a block.
        layout: ``"NCHW"`` or ``"NHWC"``.
        mode: ``"DCR"``, the pixels of a block are the outer part of the channel; ``"CRD"``, the
            inner part.
    """
    check = Check(ExpressionError, "depth_to_space")
    images, (n, c, h, w) = _channels_first(check, data, layout)
    b = check.whole("block_size", block_size, least=1)
    check.one_of("mode", mode, ("DCR", "CRD"))
    if c % (b * b):
        check.refuse("block_size", f"a number whose square divides {c} channels", block_size)
    rest = c // (b * b)
    apart = (n, b, b, rest, h, w) if mode == "DCR" else (n, rest, b, b, h, w)
    order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    moved = topi.transpose(topi.reshape(images, apart), order)
    return _in_layout(topi.reshape(moved, (n, rest, h * b, w * b)), layout)


def upsampling(
    data: Tensor,
    scale_h: float,
    scale_w: float | None = None,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Sequence[int] | None = None,
) -> Tensor:
    """Make images larger by factors; see `topi.image.resize2d`."""
    check = Check(ExpressionError, "upsampling")
    check.one_of("layout", layout, ("NCHW", "NHWC"))
    extents = dict(zip(layout, static_shape("upsampling", "data", data, 4), strict=True))
    factors = (scale_h, scale_h if scale_w is None else scale_w)
    size = output_shape or [
        round(extents[axis] * check.number("scale", factor, least=0))
        for axis, factor in zip("HW", factors, strict=True)
    ]
    mode = "align_corners" if align_corners else "asymmetric"
    return resize2d(data, None, size, layout, method.lower(), mode, "floor")


def pool1d(
    data: Tensor,
    kernel: int | Sequence[int],
    stride: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    pool_type: str = "max",
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """Take the maximum or average of windows of rows, as `pool2d` does of images."""
    check = Check(ExpressionError, "pool1d")
    check.one_of("layout", layout, ("NCW", "NWC"))
    at = layout.index("W")
    (k,), (s,), (d,) = _windows(check, 1, kernel, stride, dilation)
    before, after = _sides(check, padding, 1)
    pooled = pool2d(
        topi.expand_dims(data, at), (1, k), (1, s), (1, d), (0, before, 0, after), pool_type,
        ceil_mode, layout.replace("W", "HW"), count_include_pad,
    )  # fmt: skip
    return topi.squeeze(pooled, at)


def pool3d(
    data: Tensor,
    kernel: int | Sequence[int],
    stride: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    pool_type: str = "max",
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Take the maximum or average of windows of volumes: over each plane, then over planes."""
    check = Check(ExpressionError, "pool3d")
    check.one_of("layout", layout, ("NCDHW",))
    n, c, planes, h, w = static_shape("pool3d", "data", data, 5)
    k, s, d = _windows(check, 3, kernel, stride, dilation)
    front, top, left, back, bottom, right = _sides(check, padding, 3)
    rest = (pool_type, ceil_mode, "NCHW", count_include_pad)
    flat = topi.reshape(data, (n, c * planes, h, w))
    flat = pool2d(flat, k[1:], s[1:], d[1:], (top, left, bottom, right), *rest)
    rows, columns = static_shape("pool3d", "data", flat, 4)[2:]
    deep = topi.reshape(flat, (n, c, planes, rows * columns))
    deep = pool2d(deep, (k[0], 1), (s[0], 1), (d[0], 1), (front, 0, back, 0), *rest)
    return topi.reshape(deep, (n, c, static_shape("pool3d", "data", deep, 4)[2], rows, columns))


def _windows(
    check: Check, count: int, *given: int | Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """Return kernel, stride and dilation of each axis."""
    names = ("kernel", "stride", "dilation")
    kernel, stride, dilation = (
        _each(check, name, each, (count,), 1) for name, each in zip(names, given, strict=True)
    )
    return kernel, stride, dilation


def _sides(check: Check, padding: int | Sequence[int], count: int) -> list[int]:
    """Return paddings before each axis, then those after."""
    given = _each(check, "padding", padding, (count, 2 * count), 0)
    return given if len(given) == 2 * count else [*given, *given]


def _each(
    check: Check, name: str, value: int | Sequence[int], counts: Sequence[int], least: int
) -> list[int]:
    """Return one number for each of several axes."""
    given = value if isinstance(value, Sequence) else [value] * counts[0]
    if len(given) not in counts:
        check.refuse(name, f"{' or '.join(map(str, counts))} whole numbers", value)
    return [check.whole(name, plain_integer(each), least=least) for each in given]


def _channels_first(check: Check, data: Tensor, layout: str) -> tuple[Tensor, tuple[int, ...]]:
    """Return images as NCHW, and their extents."""
    check.one_of("layout", layout, ("NCHW", "NHWC"))
    images = data if layout == "NCHW" else topi.transpose(data, (0, 3, 1, 2))
    return images, static_shape("topi.nn", "data", images, 4)


def _in_layout(images: Tensor, layout: str) -> Tensor:
    return images if layout == "NCHW" else topi.transpose(images, (0, 2, 3, 1))
