"""Pooling over windows, over whole images, and to a given output size."""

from __future__ import annotations

from collections.abc import Sequence

from autotune import te
from autotune.ir import Cast, Expr, Mul, Select, Sub
from autotune.te.intrinsics import least
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.arguments import asks, flag, pair, takes
from autotune.topi.nn.pad import Padding
from autotune.topi.nn.window import Slide, Window, arrange, extents
from autotune.topi.types import OneOrTwo
from autotune.topi.utils import axis_names

_NAMES = axis_names(4)


@takes(kernel=pair(), ceil_mode=flag, count_include_pad=flag)
def pool2d(
    data: Tensor,
    kernel: Sequence[int],
    stride: OneOrTwo,
    dilation: OneOrTwo = 1,
    padding: Padding = 0,
    pool_type: str = "max",
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Take the maximum or average of windows.

    Args:
        data: images in ``layout``.
        kernel: rows and columns of the window.
        stride: an int or (vertical, horizontal).
        dilation: an int or (vertical, horizontal).
        padding: see `get_pad_tuple`.
        pool_type: ``"max"`` or ``"avg"``.
        ceil_mode: round the output size up, as TVM does: windows may reach beyond the padding, and
            one may lie there as a whole, which PyTorch leaves out.
        layout: ``"NCHW"`` or ``"NHWC"``.
        count_include_pad: whether an average counts elements of the padding.
    """
    _check("pool2d", pool_type, layout)
    images = extents("pool2d", "data", data, layout)
    window = Window.of("pool2d", dict(zip("HW", kernel, strict=True)), stride, padding, dilation)
    if ceil_mode:
        window = window.rounded_up()
    padded = data
    if any(slide.before or slide.after for slide in window.slides.values()):
        outside = least(data.dtype) if pool_type == "max" else 0
        padded = window.pad(data, layout, "pad_temp", outside, axes="ax")
    shape = arrange(layout, {**images, **window.output("pool2d", images)})
    pooled = _pooled(padded, layout, window, shape, pool_type, "pool")
    if pool_type == "max":
        return pooled

    def average(*i: Expr) -> Expr:
        rows, columns = (
            slide.extent
            if count_include_pad
            else _present(i[layout.index(axis)], slide, images[axis])
            for axis, slide in window.slides.items()
        )
        count = rows * columns
        divisor = (
            te.const(count, data.dtype) if isinstance(count, int) else count.astype(data.dtype)
        )
        return pooled(*i) / divisor

    result: Tensor = te.compute(shape, average, "pool_avg", tag.ELEMWISE, varargs_names=_NAMES)
    return result


def _present(index: Expr, slide: Slide, extent: int) -> Expr:
    """Return the rows (or columns) of a window that are no padding; ``extent`` is the image's."""
    start = index * slide.stride - slide.before
    skipped = te.max(te.floordiv(slide.dilation - 1 - start, slide.dilation), 0)
    reached = te.floordiv(extent - 1 - start, slide.dilation) + 1
    return te.max(te.min(reached, slide.extent) - skipped, 1)


@takes(output_size=pair())
def adaptive_pool(
    data: Tensor, output_size: Sequence[int], pool_type: str = "avg", layout: str = "NCHW"
) -> Tensor:
    """Pool to a given output size: row ``y`` covers input rows from floor(y * in / out) on.

    The windows must be of one size, as they are when the output size divides the input's.
    """
    _check("adaptive_pool", pool_type, layout)
    images = extents("adaptive_pool", "data", data, layout)
    wanted = dict(zip("HW", output_size, strict=True))
    if any(images[axis] % wanted[axis] for axis in "HW"):
        expected = f"a size that divides {images['H']}x{images['W']}"
        asks("adaptive_pool").refuse("output_size", expected, output_size)
    steps = {axis: images[axis] // wanted[axis] for axis in "HW"}
    window = Window({axis: Slide(step, step, 1, 0, 0) for axis, step in steps.items()})
    shape = arrange(layout, {**images, **wanted})
    pooled = _pooled(data, layout, window, shape, pool_type, "adaptive_pool")
    if pool_type == "max":
        return pooled

    def average(*i: Expr) -> Expr:
        rows, columns = (
            _window_size(i[layout.index(axis)], step, data.dtype) for axis, step in steps.items()
        )
        return pooled(*i) / Mul(rows, columns)

    result: Tensor = te.compute(
        shape, average, "adaptive_pool_avg", tag.ELEMWISE, varargs_names=_NAMES
    )
    return result


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pool whole images to one element a channel."""
    return adaptive_pool(data, (1, 1), pool_type, layout)


def global_pool3d(data: Tensor, pool_type: str = "avg", layout: str = "NCDHW") -> Tensor:
    """Pool whole images to one element a channel."""
    check = asks("global_pool3d")
    check.one_of("pool_type", pool_type, ("max", "avg"))
    check.one_of("layout", layout, ("NCDHW", "NDHWC"))
    images = extents("global_pool3d", "data", data, layout)
    window = Window({axis: Slide(images[axis], images[axis], 1, 0, 0) for axis in "DHW"})
    shape = arrange(layout, {**images, "D": 1, "H": 1, "W": 1})
    pooled = _pooled(data, layout, window, shape, pool_type, "adaptive_pool")
    if pool_type == "max":
        return pooled
    count = te.const(images["D"] * images["H"] * images["W"], data.dtype)
    result: Tensor = te.compute(
        shape,
        lambda *i: pooled(*i) / count,
        "adaptive_pool_avg",
        tag.ELEMWISE,
        varargs_names=axis_names(5),
    )
    return result


def _check(what: str, pool_type: str, layout: str) -> None:
    asks(what).one_of("pool_type", pool_type, ("max", "avg"))
    asks(what).one_of("layout", layout, ("NCHW", "NHWC"))


def _pooled(
    padded: Tensor, layout: str, window: Window, shape: list[int], pool_type: str, kind: str
) -> Tensor:
    """Reduce each window to its maximum, or to the sum that an average is made of."""
    element = window.axes(*axis_names(len(window.slides), "rv"))
    name, reducer = ("max", te.max) if pool_type == "max" else ("sum", te.sum)

    def body(*i: Expr) -> Expr:
        at = dict(zip(layout, i, strict=True))
        read = {**at, **window.places(at, element)}
        return reducer(padded(*arrange(layout, read)), axis=list(element.values()))

    result: Tensor = te.compute(
        shape, body, f"{kind}_{name}", f"{kind}_{name}", varargs_names=axis_names(len(layout))
    )
    return result


def _window_size(index: Expr, step: int, dtype: str) -> Expr:
    """Return ``step``, spelled as TVM spells it, so that workload keys are those of its logs.

    Windows that do not divide the image would need the difference of two rounded quotients, of
    which this is what is left; nothing is folded here, lowering does that.
    """
    end = (index + 1) * step
    rounded_up = Select(te.const(True, "bool"), end, end + 1)
    return Cast(Sub(rounded_up, index * step), dtype)
