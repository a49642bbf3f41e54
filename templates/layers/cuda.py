"""Layers of networks for the templates of convolution, pooling and data movement."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from autotune.errors import TemplateError
from autotune.graph import Value, ops
from autotune.network.expressions import text_of
from autotune.network.implementations import Offer, implements
from autotune.network.layer import Epilogue, Layer

from ..data_movement.take_cuda import INDICES, TakeRows
from ..data_movement.transpose_shape import ELEMENT_BYTES, Transpose
from ..epilogue import ACTIVATIONS as NAMED
from ..rows.number_types import STORED, WHOLE
from ..rows.reduction_shape import Reduction

FLOAT32 = ("float32",)
FLOATS = ("float32", "float16", "bfloat16")
IMAGES = ("NCHW", "NHWC")
VOLUMES = ("NCDHW", "NDHWC")
# Of all kernels for a GPU that have an epilogue, and of convolutions on a CPU.
ACTIVATIONS = (*NAMED, "expression")


def given(epilogue: Epilogue) -> tuple[Any, ...]:
    """Return the operands of an epilogue that are there, as kernels take them."""
    every = (epilogue.bias, epilogue.residual, epilogue.scale, epilogue.shift)
    return tuple(each for each in every if each is not None)


def padding_of(sides: Any) -> tuple[int, ...]:
    """Return paddings as templates take them: (y, x), or all four where sides differ."""
    (top, bottom), (left, right) = sides
    even = (top, left) == (bottom, right)
    return (top, left) if even else (top, left, bottom, right)


def takes(shape: Callable[..., object], *args: object) -> bool:
    """Return whether a template takes these extents: the class of its shapes refuses others."""
    try:
        shape(*args)
    except TemplateError:
        return False
    return True


def images(layout: str, shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return number, rows, columns and channels of images."""
    n, h, w, c = (shape[layout.index(letter)] for letter in "NHWC")
    return n, h, w, c


def of_each_channel(layer: Layer) -> bool:
    """Return whether each channel has filters of its own, one or several."""
    op, (data, weight) = layer.op, layer.inputs
    assert isinstance(op, ops.Conv2d)
    channels = data.shape[op.data_layout.index("C")]
    single = weight.shape[op.kernel_layout.index("I")] == 1
    own = op.kernel_layout == "OIHW" and single and op.groups == channels > 1
    return own or op.is_depthwise(data.type, weight.type)


@implements(
    "nn.conv2d", "cuda", "conv2d_nchw.cuda", layouts=["NCHW"], dtypes=FLOAT32,
    activations=ACTIVATIONS, keeps=True,
)  # fmt: skip
def conv2d_nchw(layer: Layer) -> Offer | None:
    """Offer the kernel for all but depthwise convolutions, with their epilogue."""
    op, epilogue = layer.op, layer.epilogue
    assert isinstance(op, ops.Conv2d)
    if of_each_channel(layer):
        return None
    if (epilogue.scale is None) != (epilogue.shift is None) and not epilogue.shifts:
        return None
    n, ci, h, w = layer.inputs[0].shape
    co, _, kh, kw = layer.inputs[1].shape
    args: tuple[Any, ...] = (n, h, w, co, ci, kh, kw, op.steps, padding_of(op.sides))
    args += (epilogue.bias is not None, epilogue.relu)
    follows = (epilogue.residual is not None, epilogue.scale is not None)
    other = "none" if epilogue.relu else epilogue.activation
    beyond: tuple[Any, ...] = (op.holes, op.groups, other)
    beyond += ((True, True) if epilogue.shifts else (True,)) if epilogue.kept else ()
    # What has its default is left out: so do scripts, and records name arguments.
    if beyond != ((1, 1), 1, "none"):
        args += (*follows, *beyond)
    elif any(follows):
        args += follows
    return Offer("conv2d_nchw.cuda", args, (*layer.inputs, *given(epilogue)))


def depthwise_conv2d(template: str, layer: Layer) -> Offer | None:
    """Offer a kernel for depthwise convolutions, with their epilogue."""
    op, epilogue = layer.op, layer.epilogue
    assert isinstance(op, ops.Conv2d)
    if not of_each_channel(layer):
        return None
    if (epilogue.scale is None) != (epilogue.shift is None):
        return None
    n, h, w, channels = images(op.data_layout, layer.inputs[0].shape)
    weight = layer.inputs[1].shape
    kh, kw = (weight[op.kernel_layout.index(letter)] for letter in "HW")
    filters = math.prod(weight) // (channels * kh * kw)
    args = (
        n, h, w, channels, filters, kh, kw, op.steps, padding_of(op.sides),
        epilogue.bias is not None, epilogue.activation, epilogue.residual is not None,
        epilogue.scale is not None, op.holes, op.data_layout, *unusual(layer.result.dtype),
    )  # fmt: skip
    return Offer(template, args, (*layer.inputs, *given(epilogue)))


def unusual(dtype: str) -> tuple[str, ...]:
    """Return a type as an argument that is left out where it has its default."""
    return () if dtype == "float32" else (dtype,)


def pool2d(template: str, layer: Layer) -> Offer | None:
    """Offer a kernel for max and average pooling without epilogue."""
    op = layer.op
    assert isinstance(op, ops.Pool2d)
    # A window beyond the padding (ceil mode) has fewer elements than the kernel would count.
    counts_beyond = op.ceil_mode and op.kind == "avg" and op.count_include_pad
    if layer.epilogue != Epilogue() or counts_beyond:
        return None
    size, step, sides, hole = zip(*op.windows(), strict=True)
    args = (
        op.kind, *images(op.layout, layer.inputs[0].shape), size, step, padding_of(sides), hole,
        op.count_include_pad, op.layout, *unusual(layer.result.dtype),
    )  # fmt: skip
    return Offer(template, args, layer.inputs)


def global_pool(kind: str, layer: Layer) -> Offer | None:
    """Offer the reduction of rows, or down columns, for the pooling of whole images."""
    op = layer.op
    assert isinstance(op, ops.GlobalPool)
    if layer.epilogue != Epilogue():
        return None
    name = {"avg": "mean", "max": "max"}[op.kind]
    shape = layer.inputs[0].shape
    pixels = math.prod(e for e, axis in zip(shape, op.layout, strict=True) if axis not in "NC")
    inner = 1 if op.layout.endswith(("H", "W")) else shape[-1]
    outer = math.prod(shape) // (pixels * inner)
    return _reduced(kind, layer, (name, outer, pixels, inner))


def _reduced(
    kind: str, layer: Layer, extents: tuple[object, ...], functions: tuple[object, ...] = ()
) -> Offer | None:
    dtype = layer.inputs[0].dtype
    args = (*extents, dtype, *functions)
    # On a CPU there is only one dtype.
    fits = takes(Reduction.of, *args) and (kind == "cuda" or dtype in FLOAT32)
    given = args if kind == "cuda" else extents
    return Offer(f"reduce.{kind}", given, layer.inputs) if fits else None


def reduction(kind: str, layer: Layer) -> Offer | None:
    """Offer the reduction along neighbouring axes, and on a GPU along any."""
    op, shape, after = layer.op, layer.inputs[0].shape, layer.epilogue.activation
    assert isinstance(op, ops.Reduction)
    outer, depth, inner = alternating(shape, op.over(len(shape)))
    if not depth or layer.epilogue != Epilogue(activation=after):
        return None
    functions = ("", _NAMED_FUNCTIONS.get(after, after)) if after != "none" else ()
    if kind != "cuda" and (functions or len(depth) > 1):
        return None
    extents = (*outer, *depth) if len(depth) == 1 else (outer, depth)
    return _reduced(kind, layer, (op.name, *extents, inner), functions)


# Activations that have a name, as expressions.
_NAMED_FUNCTIONS = {
    "relu": text_of(ops.Relu()), "relu6": text_of(ops.Clip(0.0, 6.0)), "silu": text_of(ops.Silu()),
    "gelu": text_of(ops.Gelu()), "gelu_tanh": text_of(ops.Gelu("tanh")),
}  # fmt: skip


def alternating(
    shape: tuple[int, ...], over: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return the extents of neighbours that are kept, of those reduced, and what is behind them.

    Axes of one element are neighbours of both.
    """
    outer, depth, inner = list[int](), list[int](), 1
    for axis, extent in enumerate(shape):
        if axis not in over:
            inner *= extent
        elif depth and inner == 1:
            depth[-1] *= extent
        else:
            outer.append(inner)
            depth.append(extent)
            inner = 1
    return tuple(outer), tuple(depth), inner


def enter_windows(kind: str, layouts: tuple[str, ...]) -> None:
    """Register the templates of depthwise convolution and pooling for a kind of target."""
    name, dtypes = f"depthwise_conv2d.{kind}", FLOATS if kind == "cuda" else FLOAT32
    matcher = partial(depthwise_conv2d, name)
    implements("nn.conv2d", kind, name, layouts, dtypes, ACTIVATIONS)(matcher)
    # Networks have no averages of integers, and no sums that are wider than what is convolved.
    for operator, more in (("nn.max_pool2d", ("int8", "uint8")), ("nn.avg_pool2d", ())):
        name = f"pool2d.{kind}"
        implements(operator, kind, name, layouts, (*dtypes, *more))(partial(pool2d, name))


def enter_reductions(kind: str, dtypes: tuple[str, ...]) -> None:
    """Register the template of reductions for a kind of target."""
    name, pool = f"reduce.{kind}", partial(global_pool, kind)
    for operator in ("nn.global_avg_pool2d", "nn.global_max_pool2d"):
        implements(operator, kind, name, IMAGES, dtypes)(pool)
    implements("nn.global_avg_pool3d", kind, name, VOLUMES, dtypes)(pool)
    # Indices are integers, whatever the elements are; sums of narrow ones are of 32 bits.
    indices, stored = ("argmax", "argmin"), tuple(STORED) if kind == "cuda" else ()
    more = dict.fromkeys(indices, stored or ("int32",)) | dict.fromkeys(("max", "min"), stored)
    own = tuple(each for each in stored if each in ("int32", "int64", "float64"))
    more |= dict.fromkeys(("sum", "prod"), own)
    more["mean"] = tuple(each for each in stored if each not in WHOLE)
    for operator in ("sum", "mean", "max", "min", "prod", *indices):
        every = (*dtypes, *more.get(operator, ()))
        applied = ACTIVATIONS if kind == "cuda" else ("none",)
        implements(operator, kind, name, dtypes=every, activations=applied)(
            partial(reduction, kind)
        )


enter_windows("cuda", IMAGES)
enter_reductions("cuda", FLOATS)
enter_reductions("cpu", FLOAT32)


def transpose(kind: str, layer: Layer) -> Offer | None:
    """Offer the copy with other axes, where nothing else is done with it."""
    op, (data,) = layer.op, layer.inputs
    assert isinstance(op, ops.Transpose)
    axes = op.axes or tuple(reversed(range(len(data.shape))))
    axes = tuple(axis % len(data.shape) for axis in axes)
    if layer.epilogue != Epilogue() or axes == tuple(sorted(axes)):
        return None
    return transposition(kind, layer.inputs, tuple(data.shape), axes, data.dtype)


def transposition(
    kind: str, inputs: tuple[Value, ...], shape: tuple[int, ...], axes: tuple[int, ...], dtype: str
) -> Offer | None:
    """Offer a permutation of the axes of an input that is seen in a shape."""
    args = (shape, axes, dtype)
    return Offer(f"transpose.{kind}", args, inputs) if takes(Transpose, *args) else None


def take_rows(layer: Layer) -> Offer | None:
    """Offer the copy of rows of a table by index."""
    op, (table, index) = layer.op, layer.inputs
    assert isinstance(op, ops.Take)
    first = op.along in (0, -len(table.shape))
    if not first or layer.epilogue != Epilogue() or index.dtype not in INDICES:
        return None
    rows, *rest = table.shape
    args = (rows, math.prod(rest), math.prod(index.shape), table.dtype, index.dtype)
    return Offer("take_rows.cuda", args, layer.inputs) if takes(TakeRows, *args) else None


for _kind in ("cuda", "cpu"):
    _dtypes = tuple(ELEMENT_BYTES)
    implements("transpose", _kind, f"transpose.{_kind}", dtypes=_dtypes)(partial(transpose, _kind))
implements("take", "cuda", "take_rows.cuda", dtypes=tuple(ELEMENT_BYTES))(take_rows)
