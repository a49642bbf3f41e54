"""Templates under the names of TVM's, with the arguments that operators have in its logs.

    extract_from_program(module, params, "cuda")[0].args
    # (("TENSOR", (1, 3, 224, 224), "float32"), ("TENSOR", (64, 3, 7, 7), "float32"),
    #  (2, 2), (3, 3, 3, 3), (1, 1), "float32")

The kernels and their knobs are ours. Records with the knobs that TVM's templates have, such as
those that it published, replay by the tensor expressions that have the same knobs. Results are of
``out_dtype``; where that is of 16 bits, sums are of float32, and rounded once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from autotune import SourceKernel, Target, get_config, te, topi
from autotune.errors import TemplateError
from autotune.task import register_operator
from autotune.topi.nn.conv2d_transpose import conv2d_transpose_nchw
from autotune.topi.nn.conv3d import conv3d

from . import source, source_windows, te_common, te_conv2d, te_gemm, te_sums, te_winograd
from .convolutions.conv2d_nhwc import Conv2dNhwc
from .convolutions.window_shape import Depthwise, Window
from .products.gemm_shape import HALVES
from .quantised import has_mma
from .te_common import Scheduled

Pair = tuple[int, int]
Sides = tuple[int, int, int, int]
Extents = tuple[int, ...] | None
Made = SourceKernel | Scheduled
Moves = Any  # what `_moves` takes: a number, a tuple or a text
# Knobs by which a configuration of TVM's templates is known.
_TILED, _OF_FLOAT = "tile_f", "float32"


def _extents(data: te.Tensor, kernel: te.Tensor) -> tuple[int, int, int, int, int, int, int]:
    """Return n, h, w, co, ci, kh and kw of a convolution NCHW."""
    n, ci, h, w = topi.utils.get_const_tuple(data.shape)
    co, _, kh, kw = topi.utils.get_const_tuple(kernel.shape)
    return n, h, w, co, ci, kh, kw


def _moves(
    kernel: te.Tensor, strides: Moves, padding: Moves, dilation: Moves
) -> tuple[Pair, Sides, Pair]:
    """Return strides, padding and dilation of a convolution of images NCHW as tuples."""
    window = topi.utils.get_const_tuple(kernel.shape)[-2:]
    return moves_of(window, strides, padding, dilation)


def moves_of(
    window: tuple[int, ...], strides: Moves, padding: Moves, dilation: Moves
) -> tuple[Pair, Sides, Pair]:
    """Return strides, padding and dilation of a convolution of images as tuples.

    As in TVM, each may be one number for both directions, and the padding ``"SAME"``.
    """
    steps, holes = (
        (each, each) if isinstance(each, int) else each for each in (strides, dilation)
    )
    reach = [(extent - 1) * hole + 1 for extent, hole in zip(window, holes, strict=True)]
    return steps, topi.nn.get_pad_tuple(padding, reach), holes


def _by_tiles(data: te.Tensor) -> bool:
    """Return whether the tensor expression is asked for: by TVM's knobs, or by a dtype."""
    return data.dtype != _OF_FLOAT or _TILED in get_config()


def _by_hand(data: te.Tensor, kernel: te.Tensor, out_dtype: str) -> bool:
    """Return whether 16-bit floats have hand-written kernels: unless TVM's knobs are given."""
    alike = data.dtype in HALVES and {kernel.dtype, out_dtype} == {data.dtype}
    target = Target.current() or Target("cuda")
    return alike and _TILED not in get_config() and has_mma(target) and not target.emulate


def _nhwc(
    data: te.Tensor, kernel: te.Tensor, moves: tuple[Pair, Sides, Pair], groups: int = 1
) -> Conv2dNhwc | None:
    """Return a convolution of NCHW images as one of NHWC images, or None.

    The tensor expression computes images that are too large, and refuses what cannot be.
    """
    (n, h, w, co, ci, kh, kw), (strides, padding, dilation) = _extents(data, kernel), moves
    if int(kernel.shape[1]) * groups != ci:
        return None
    try:
        window = Window((kh, kw), strides, padding, dilation)
        return Conv2dNhwc(n, h, w, co, ci, window, data.dtype, groups=groups)
    except TemplateError:
        return None


def _has_depthwise(data: te.Tensor, kernel: te.Tensor, moves: tuple[Pair, Sides, Pair]) -> bool:
    """Return whether hand-written kernels of 16-bit floats compute a depthwise convolution."""
    (n, c, h, w), (channels, multiplier, kh, kw) = (
        topi.utils.get_const_tuple(each.shape) for each in (data, kernel)
    )
    try:
        window = Window((kh, kw), *moves)
        return bool(channels == Depthwise(n, h, w, c, window, "NCHW", multiplier).channels)
    except TemplateError:
        return False


def plain(template: Any) -> Any:
    """Return the function of a template, to be run with the configuration that is current."""
    return template.__wrapped__


@register_operator("conv2d_nchw.cuda")
def conv2d_nchw_cuda(
    data: te.Tensor, kernel: te.Tensor, strides: Moves, padding: Moves, dilation: Moves,
    out_dtype: str = _OF_FLOAT,
) -> Made:  # fmt: skip
    """Convolve images NCHW by filters OIHW."""
    moves = strides, padding, dilation = _moves(kernel, strides, padding, dilation)
    if _by_hand(data, kernel, out_dtype) and (shape := _nhwc(data, kernel, moves)):
        return source_windows.conv2d_channels_first_cuda(shape)
    if _by_tiles(data):
        conv = te_common.rounded_sum(
            partial(topi.nn.conv2d_nchw, data, kernel, strides, padding, dilation), out_dtype
        )
        return te_conv2d.on_gpu(data, kernel, conv, te_conv2d.CUDA_SLICES)
    made: Made = plain(source.conv2d_nchw_cuda)(
        *_extents(data, kernel), strides, padding, dilation=dilation
    )
    return made


@register_operator("group_conv2d_nchw.cuda")
def group_conv2d_nchw_cuda(
    data: te.Tensor, kernel: te.Tensor, strides: Moves, padding: Moves, dilation: Moves,
    groups: int, out_dtype: str = _OF_FLOAT,
) -> Made:  # fmt: skip
    """Convolve images NCHW by filters of each group of channels."""
    moves = strides, padding, dilation = _moves(kernel, strides, padding, dilation)
    if _by_hand(data, kernel, out_dtype) and (shape := _nhwc(data, kernel, moves, groups)):
        return source_windows.conv2d_channels_first_cuda(shape)
    if {data.dtype, out_dtype} != {_OF_FLOAT}:
        conv = te_common.rounded_sum(
            partial(topi.nn.group_conv2d_nchw, data, kernel, *moves, groups), out_dtype
        )
        return te_conv2d.on_gpu(data, kernel, conv, te_conv2d.CUDA_SLICES)
    made: SourceKernel = plain(source.conv2d_nchw_cuda)(
        *_extents(data, kernel), strides, padding, dilation=dilation, groups=groups
    )
    return made


@register_operator("depthwise_conv2d_nchw.cuda")
def depthwise_conv2d_nchw_cuda(
    data: te.Tensor, kernel: te.Tensor, strides: Moves, padding: Moves, dilation: Moves,
    out_dtype: str = _OF_FLOAT,
) -> Made:  # fmt: skip
    """Depthwise convolution of NCHW images."""
    moves = strides, padding, dilation = _moves(kernel, strides, padding, dilation)
    by_hand = _by_hand(data, kernel, out_dtype) and _has_depthwise(data, kernel, moves)
    if not by_hand and _by_tiles(data):
        conv = te_common.rounded_sum(
            partial(topi.nn.depthwise_conv2d_nchw, data, kernel, strides, padding, dilation),
            out_dtype,
        )
        return te_conv2d.on_gpu(data, kernel, conv, ())
    n, c, h, w = topi.utils.get_const_tuple(data.shape)
    _, multiplier, kh, kw = topi.utils.get_const_tuple(kernel.shape)
    made: Made = plain(source_windows.depthwise_conv2d_cuda)(
        n, h, w, c, multiplier, kh, kw, strides, padding, dilation=dilation, dtype=data.dtype
    )
    return made


@register_operator("conv2d_NCHWc.x86")
def conv2d_nchwc_x86(
    data: te.Tensor, kernel: te.Tensor, strides: Moves, padding: Moves, dilation: Moves,
    layout: str = "NCHW", out_layout: str = "NCHW", out_dtype: str = _OF_FLOAT,
) -> Made:  # fmt: skip
    """Convolve images NCHW on a CPU; blocks of channels are the kernel's own affair."""
    strides, padding, dilation = _moves(kernel, strides, padding, dilation)
    del layout, out_layout
    even = padding[:2] == padding[-2:] and set(dilation) == {1}
    if data.dtype != _OF_FLOAT or not even:
        conv = te_common.rounded_sum(
            partial(topi.nn.conv2d_nchw, data, kernel, strides, padding, dilation), out_dtype
        )
        return te_conv2d.on_cpu(data, kernel, conv)
    made: Made = plain(source.conv2d_nchw_cpu)(*_extents(data, kernel), strides, padding[:2])
    return made


@register_operator("depthwise_conv2d_NCHWc.x86")
def depthwise_conv2d_nchwc_x86(
    data: te.Tensor, kernel: te.Tensor, strides: Moves, padding: Moves, dilation: Moves,
    layout: str = "NCHW", out_layout: str = "NCHW", out_dtype: str = _OF_FLOAT,
) -> Scheduled:  # fmt: skip
    """Depthwise convolution of NCHW images on a CPU."""
    strides, padding, dilation = _moves(kernel, strides, padding, dilation)
    del layout, out_layout
    conv = te_common.rounded_sum(
        partial(topi.nn.depthwise_conv2d_nchw, data, kernel, strides, padding, dilation), out_dtype
    )
    return te_conv2d.depthwise_on_cpu(data, kernel, conv)


def _product(
    data: te.Tensor, weight: te.Tensor, out_dtype: str | None
) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    def product(dtype: str) -> te.Tensor:
        made: te.Tensor = topi.nn.matmul(data, weight, out_dtype=dtype, transpose_b=True)
        return made

    return data, weight, te_common.rounded_sum(product, out_dtype or data.dtype)


@register_operator("dense_small_batch.gpu")
def dense_small_batch_gpu(
    data: te.Tensor, weight: te.Tensor, bias: None = None, out_dtype: str | None = None
) -> Scheduled:
    """Apply a dense layer to few rows: data [batch, in] by the transpose of weight [out, in]."""
    del bias
    return te_gemm.schedule_cuda(*_product(data, weight, out_dtype))


@register_operator("dense_large_batch.gpu")
def dense_large_batch_gpu(
    data: te.Tensor, weight: te.Tensor, bias: None = None, out_dtype: str | None = None
) -> SourceKernel:
    """Apply a dense layer to many rows, with weights that are laid out [in, out]."""
    del bias, out_dtype
    (m, k), (n, _) = map(topi.utils.get_const_tuple, (data.shape, weight.shape))
    made: SourceKernel = plain(source.gemm_nn_cuda)(m, n, k, data.dtype)
    return made


@register_operator("dense_nopack.x86")
def dense_nopack_x86(
    data: te.Tensor, weight: te.Tensor, bias: None = None, out_dtype: str | None = None
) -> Scheduled:
    """Apply a dense layer on a CPU: data [batch, in] by the transpose of weight [out, in]."""
    del bias
    return te_gemm.schedule_cpu(*_product(data, weight, out_dtype))


@register_operator("dense_pack.x86")
def dense_pack_x86(
    data: te.Tensor, weight: te.Tensor, bias: None = None, out_dtype: str | None = None
) -> Made:
    """Apply a dense layer on a CPU, with weights that are laid out [in, out]."""
    del bias
    if data.dtype != _OF_FLOAT:
        return te_gemm.schedule_cpu(*_product(data, weight, out_dtype))
    (m, k), (n, _) = map(topi.utils.get_const_tuple, (data.shape, weight.shape))
    made: Made = plain(source.gemm_nn_cpu)(m, n, k)
    return made


@register_operator("conv2d_nchw_winograd.cuda")
def conv2d_nchw_winograd_cuda(
    data: te.Tensor, kernel: te.Tensor, strides: Moves, padding: Moves, dilation: Moves,
    out_dtype: str = _OF_FLOAT,
) -> Scheduled:  # fmt: skip
    """Convolve by Winograd's method, with filters that were transformed ahead of time."""
    strides, padding, dilation = _moves(kernel, strides, padding, dilation)
    if {*strides, *dilation} != {1}:
        raise TemplateError(
            "conv2d_nchw_winograd.cuda: strides and dilation must be 1, got "
            f"{strides} and {dilation}"
        )
    return te_winograd.conv2d_nchw(data, kernel, padding, out_dtype)


@register_operator("conv2d_nhwc.gpu")
def conv2d_nhwc_gpu(
    data: te.Tensor, kernel: te.Tensor, strides: Moves, padding: Moves, dilation: Moves,
    out_dtype: str = _OF_FLOAT,
) -> SourceKernel:  # fmt: skip
    """Convolve images NHWC by filters HWIO."""
    window = topi.utils.get_const_tuple(kernel.shape)[:2]
    strides, padding, dilation = moves_of(window, strides, padding, dilation)
    del out_dtype
    n, h, w, ci = topi.utils.get_const_tuple(data.shape)
    kh, kw, _, co = topi.utils.get_const_tuple(kernel.shape)
    made: SourceKernel = plain(source_windows.conv2d_nhwc_cuda)(
        n, h, w, co, ci, kh, kw, strides, padding, dilation=dilation, dtype=data.dtype
    )
    return made


def _conv3d(layout: str, kind: str) -> None:
    """Enter the template of a layout of images of depth, height and width."""
    name = f"conv3d_{layout.lower()}.{kind}"

    @register_operator(name)
    def convolution(
        data: te.Tensor, kernel: te.Tensor, strides: tuple[int, ...], padding: tuple[int, ...],
        dilation: tuple[int, ...], groups: int = 1, out_dtype: str = _OF_FLOAT,
    ) -> Scheduled:  # fmt: skip
        """3-D convolution."""
        if groups != 1:
            raise TemplateError(f"{name}: groups must be 1, got {groups}")
        sides = [*zip(padding[:3], padding[3:], strict=True)]

        def total(dtype: str) -> te.Tensor:
            return conv3d(data, kernel, strides, sides, dilation, layout, out_dtype=dtype)

        conv = te_common.rounded_sum(total, out_dtype)
        if kind == "x86":
            return te_sums.on_cpu((data, kernel), conv)
        axes = dict(zip(layout, conv.op.axis, strict=True))
        knobs = {"C": "tile_f", "H": "tile_y", "W": "tile_x"}
        tiled = {knobs[letter]: axes[letter] for letter in layout if letter in knobs}
        return te_sums.on_gpu((data, kernel), conv, tiled)


for _layout in ("NCDHW", "NDHWC"):
    for _kind in ("cuda", "x86"):
        _conv3d(_layout, _kind)


@register_operator("conv2d_transpose_nchw.cuda")
def conv2d_transpose_nchw_cuda(
    data: te.Tensor, kernel: te.Tensor, strides: Pair, padding: Sides,
    out_dtype: str = _OF_FLOAT, output_padding: Pair = (0, 0), groups: int = 1,
) -> Scheduled:  # fmt: skip
    """Transposed convolution of NCHW images by filters [in, out, height, width]."""
    if groups != 1:
        raise TemplateError(f"conv2d_transpose_nchw.cuda: groups must be 1, got {groups}")

    def total(dtype: str) -> te.Tensor:
        return conv2d_transpose_nchw(data, kernel, strides, padding, dtype, output_padding)

    made = te_common.rounded_sum(total, out_dtype)
    _, f, y, x = made.op.axis
    return te_sums.on_gpu((data, kernel), made, {"tile_f": f, "tile_y": y, "tile_x": x})


@register_operator("batch_matmul.cuda")
def batch_matmul_cuda(
    x: te.Tensor, y: te.Tensor, out_shape: Extents = None, out_dtype: str | None = None,
    transpose_a: bool = False, transpose_b: bool = True,
) -> SourceKernel:  # fmt: skip
    """Multiply batches of matrices, [batch, m, k] by [batch, n, k] if ``transpose_b``."""
    del out_shape, out_dtype
    given = [topi.utils.get_const_tuple(each.shape) for each in (x, y)]
    (left, *a), (right, *b) = given
    (m, k), n = a[::-1] if transpose_a else a, b[0] if transpose_b else b[1]
    shared = "" if left == right else "a" if left == 1 else "b"
    made: SourceKernel = plain(source.gemm_cuda_any)(
        m, n, k, x.dtype, max(left, right), transpose_a, transpose_b, shared=shared
    )
    # The kernel sees the same memory without an axis of extent 1.
    shapes = (*given, (max(left, right), m, n))
    args = [replace(one, shape=shape) for one, shape in zip(made.args, shapes, strict=True)]
    return replace(made, args=args)


@register_operator("batch_matmul.x86")
def batch_matmul_x86(
    x: te.Tensor, y: te.Tensor, out_shape: Extents = None, out_dtype: str | None = None,
    transpose_a: bool = False, transpose_b: bool = True,
) -> Scheduled:  # fmt: skip
    """Multiply batches of matrices on a CPU."""
    del out_shape

    def total(dtype: str) -> te.Tensor:
        made: te.Tensor = topi.nn.batch_matmul(x, y, None, dtype, transpose_a, transpose_b)
        return made

    made = te_common.rounded_sum(total, out_dtype or x.dtype)
    return te_sums.on_cpu((x, y), made)
