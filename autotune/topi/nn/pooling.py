"""Pooling over windows, over whole images, and to a given output size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Cast, Expr, Mul, Select, Sub
from autotune.te.tensor import Tensor
from autotune.topi import tag
from autotune.topi.nn.pad import Padding, get_pad_tuple, pad
from autotune.topi.utils import axis_names, pair, static_shape

_NAMES = axis_names(4)


def _spatial(what: str, layout: str) -> tuple[int, int]:
    if layout not in ("NCHW", "NHWC"):
        raise ExpressionError(f"{what}: layout must be NCHW or NHWC, got {layout!r}")
    return layout.index("H"), layout.index("W")


def _replaced(values: Sequence[Any], at: tuple[int, int], new: tuple[Any, Any]) -> list[Any]:
    result = list(values)
    result[at[0]], result[at[1]] = new
    return result


def pool2d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any = 1,
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
        ceil_mode: round the output size up: windows may reach beyond the padding.
        layout: ``"NCHW"`` or ``"NHWC"``.
        count_include_pad: whether an average counts elements of the padding.
    """
    if pool_type not in ("max", "avg"):
        raise ExpressionError(f"pool2d: pool_type must be 'max' or 'avg', got {pool_type!r}")
    at = _spatial("pool2d", layout)
    shape = static_shape("pool2d", data, 4)
    size, steps = pair("pool2d: kernel", kernel), pair("pool2d: stride", stride)
    holes = pair("pool2d: dilation", dilation)
    spread = [(k - 1) * d + 1 for k, d in zip(size, holes, strict=True)]
    sides = get_pad_tuple(padding, spread)
    before = sides[:2]
    after = [p + (s - 1 if ceil_mode else 0) for p, s in zip(sides[2:], steps, strict=True)]
    extents = [
        (shape[a] + before[i] + after[i] - spread[i]) // steps[i] + 1 for i, a in enumerate(at)
    ]
    if min(extents) < 1:
        raise ExpressionError(f"pool2d: window {size} does not fit into {data.name} {shape}")
    out = _replaced(shape, at, (extents[0], extents[1]))
    outside = te.min_value(data.dtype) if pool_type == "max" else 0
    zeros = [0, 0, 0, 0]
    padded = data
    if any(before) or any(after):
        padded = pad(
            data,
            _replaced(zeros, at, (before[0], before[1])),
            _replaced(zeros, at, (after[0], after[1])),
            outside,
            "pad_temp",
        )
    dy = te.reduce_axis((0, size[0]), name="rv0")
    dx = te.reduce_axis((0, size[1]), name="rv1")

    def window(*i: Any) -> Any:
        y = i[at[0]] * steps[0] + dy * holes[0]
        x = i[at[1]] * steps[1] + dx * holes[1]
        reducer = te.max if pool_type == "max" else te.sum
        return reducer(padded(*_replaced(i, at, (y, x))), axis=[dy, dx])

    kind = "pool_max" if pool_type == "max" else "pool_sum"
    pooled: Tensor = te.compute(out, window, "tensor", kind, varargs_names=_NAMES)
    if pool_type == "max":
        return pooled

    def present(index: Any, i: int) -> Any:
        """Count the rows (or columns) of a window that are not padding."""
        if count_include_pad:
            return size[i]
        start = index * steps[i] - before[i]
        skipped = te.max(te.floordiv(holes[i] - 1 - start, holes[i]), 0)
        reached = te.min(te.floordiv(shape[at[i]] - 1 - start, holes[i]) + 1, size[i])
        return te.max(reached - skipped, 1)

    def average(*i: Any) -> Any:
        count = present(i[at[0]], 0) * present(i[at[1]], 1)
        divisor = te.const(count, data.dtype) if isinstance(count, int) else None
        return pooled(*i) / (count.astype(data.dtype) if divisor is None else divisor)

    result: Tensor = te.compute(out, average, "tensor", tag.ELEMWISE, varargs_names=_NAMES)
    return result


def adaptive_pool(
    data: Tensor, output_size: Any, pool_type: str = "avg", layout: str = "NCHW"
) -> Tensor:
    """Pool to a given output size: row ``y`` covers input rows from floor(y * in / out) on.

    The windows must be of one size, as they are when the output size divides the input's.
    """
    if pool_type not in ("max", "avg"):
        raise ExpressionError(f"adaptive_pool: pool_type must be 'max' or 'avg', got {pool_type}")
    at = _spatial("adaptive_pool", layout)
    shape = static_shape("adaptive_pool", data, 4)
    extents = pair("adaptive_pool: output_size", output_size)
    sizes = [shape[a] for a in at]
    if any(n % m for n, m in zip(sizes, extents, strict=True)):
        raise ExpressionError(
            f"adaptive_pool: output size {extents} must divide {sizes[0]}x{sizes[1]}"
        )
    steps = [n // m for n, m in zip(sizes, extents, strict=True)]
    dy = te.reduce_axis((0, steps[0]), name="rv0")
    dx = te.reduce_axis((0, steps[1]), name="rv1")
    out = _replaced(shape, at, extents)

    def window(*i: Any) -> Any:
        y = i[at[0]] * steps[0] + dy
        x = i[at[1]] * steps[1] + dx
        reducer = te.max if pool_type == "max" else te.sum
        return reducer(data(*_replaced(i, at, (y, x))), axis=[dy, dx])

    kind = f"adaptive_pool_{'max' if pool_type == 'max' else 'sum'}"
    pooled: Tensor = te.compute(out, window, "tensor", kind, varargs_names=_NAMES)
    if pool_type == "max":
        return pooled

    def average(*i: Any) -> Any:
        rows, columns = (_window_size(i[a], steps[k], data.dtype) for k, a in enumerate(at))
        return pooled(*i) / Mul(rows, columns)

    result: Tensor = te.compute(out, average, "tensor", tag.ELEMWISE, varargs_names=_NAMES)
    return result


def _window_size(index: Any, step: int, dtype: str) -> Expr:
    """Return ``step``, spelled as TVM spells it, so that workload keys are those of its logs.

    Windows that do not divide the image would need the difference of two rounded quotients, of
    which this is what is left; nothing is folded here, lowering does that.
    """
    end = (index + 1) * step
    rounded_up = Select(te.const(True, "bool"), end, end + 1)
    return Cast(Sub(rounded_up, index * step), dtype)


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pool whole images to one element a channel."""
    return adaptive_pool(data, (1, 1), pool_type, layout)
