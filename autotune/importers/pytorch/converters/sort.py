"""Sorting, ranks, writing at indices of the data, and images at places that are data."""

from __future__ import annotations

from autotune.graph import Array, Value, ops
from autotune.importers.deformed import DeformedConvolution
from autotune.importers.grid import MODES, PADDINGS, GridSampler
from autotune.importers.pytorch.call import Call, Operand, converts
from autotune.importers.ranks import first_along, neutral, written_along
from autotune.importers.regions import RegionReader


@converts("sort.default")
def sort(call: Call, x: Value, dim: int = -1, descending: bool = False) -> list[Value]:
    """Sort along an axis; the first of equals stays before the others."""
    if not x.shape:
        return [x, call.constant(0, "int64")]
    axis = dim % x.type.ndim
    values, places = first_along(x, axis, x.shape[axis], descending, call.origin)
    return [values, call.cast(places, "int64")]


@converts("sort.stable")
def sort_stable(
    call: Call, x: Value, stable: object = None, dim: int = -1, descending: bool = False
) -> list[Value]:
    """Sort along an axis."""
    return sort(call, x, dim, descending)


@converts("topk")
def topk(
    call: Call, x: Value, k: int, dim: int = -1, largest: bool = True, in_order: bool = True
) -> list[Value]:
    """Return the k largest or least along an axis, in order, and where they are."""
    if not x.shape:
        return sort(call, x)
    values, places = first_along(x, dim % x.type.ndim, k, largest, call.origin)
    return [values, call.cast(places, "int64")]


@converts("kthvalue")
def of_rank(call: Call, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """Return the k-th least element along an axis, and where it is."""
    values, places = topk(call, x, k, dim, False)
    return _at(call, dim, k - 1, values, places)


@converts("median.dim")
def median(call: Call, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    """Return the lower median along an axis, or what is no number there, and where it is."""
    if not x.shape:
        return sort(call, x)
    count = x.shape[dim]
    values, places = sort(call, x, dim)
    middle = _at(call, dim, (count - 1) // 2, values, places)
    if "float" not in x.dtype:
        return middle
    last = _at(call, dim, count - 1, values, places)
    failed = call.apply(ops.IsNan(), last[0])
    return [call.apply(ops.Where(), failed, *each) for each in zip(last, middle, strict=True)]


@converts("median.default")
def median_of_all(call: Call, x: Value) -> Value:
    """Return the lower median of all elements; what is no number if there is one."""
    return median(call, call.reshape(x, (x.type.size,)), 0)[0]


def _at(call: Call, dim: int, index: int, *several: Value) -> list[Value]:
    """Return one index of an axis, in the shape of the result."""
    if not several[0].shape:
        return list(several)
    axis = dim % several[0].type.ndim
    shape = call.type.shape
    return [call.reshape(call.slice(each, axis, index, index + 1), shape) for each in several]


@converts("scatter_add")
def scatter_add(call: Call, x: Value, dim: int, index: Value, source: Value) -> Value:
    """Add elements to places along an axis."""
    return written_along(x, index, source, _axis(call, x, dim, index), "add", call.origin)


def _axis(call: Call, x: Value, dim: int, index: Value) -> int:
    """Return the axis of what is written to, of which all indices are."""
    if not x.shape:
        call.refuse("the data", "a tensor with an axis", str(x.type))
    call.within(index, x.shape[dim])
    return dim % x.type.ndim


_REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


@converts("scatter_reduce")
def scatter_reduce(
    call: Call, x: Value, dim: int, index: Value, source: Value, reduce: str,
    include_self: bool = True,
) -> Value:  # fmt: skip
    """Combine elements with those at places along an axis, or these alone where there are some."""
    if reduce not in _REDUCTIONS:
        call.refuse("reduce", f"one of {', '.join(_REDUCTIONS)}", reduce)
    axis, how = _axis(call, x, dim, index), _REDUCTIONS[reduce]

    def combined(data: Value, updates: Value, kind: str) -> Value:
        return written_along(data, index, updates, axis, kind, call.origin)

    def full(number: float | Array, like: Value, dtype: str) -> Value:
        return call.expand(call.constant(number, dtype), like.shape)

    if include_self and reduce != "mean":
        return combined(x, source, how)
    own = x if include_self else full(neutral(how, x.dtype), x, x.dtype)
    result = combined(own, source, how)
    first = full(int(include_self), x, "int32")
    count = combined(first, full(1, source, "int32"), "add")
    some = call.apply(ops.Greater(), count, full(0, x, "int32"))
    if reduce == "mean":
        divisor = call.apply(ops.Maximum(), count, full(1, x, "int32"))
        op = ops.Divide if "float" in x.dtype else ops.FloorDivide
        result = call.binary(op, result, divisor, x.dtype)
    return call.apply(ops.Where(), some, result, x)


@converts("torchvision.roi_align")
def roi_align(
    call: Call, x: Value, regions: Value, scale: float, rows: int, columns: int, samples: int,
    aligned: bool,
) -> Value:  # fmt: skip
    """Interpolate regions of images, each of which begins with the number of its image."""
    count = regions.shape[0]
    first = call.apply(ops.StridedSlice((0, 0), (count, 1)), regions)
    rest = call.apply(ops.StridedSlice((0, 1), (count, 5)), regions)
    images = call.cast(call.reshape(first, (count,)), "int32")
    reader = RegionReader(rows, columns, samples, scale, aligned, "avg", call.origin)
    return reader.read(x, rest, images)


@converts("torchvision.deform_conv2d")
def deform_conv2d(
    call: Call, x: Value, weight: Value, offset: Value, mask: Value, bias: Value,
    down: int, across: int, top: int, left: int, rows: int, columns: int,
    groups: int, offset_groups: int, use_mask: bool,
) -> Value:  # fmt: skip
    """Convolve images that are read at places which the data move."""
    deformed = DeformedConvolution(
        (down, across), (rows, columns), (top, left, top, left), groups, offset_groups, call.origin
    )
    out = deformed.convolve(x, weight, offset, mask if use_mask else None)
    return call.apply(ops.BiasAdd(1), out, bias)


@converts("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    call: Call, x: Value, grid: Value, mode: int, padding: int, align_corners: bool
) -> Value:
    """Read images at the places of a grid."""
    sampler = GridSampler(MODES[mode], PADDINGS[padding], align_corners, call.origin)
    return sampler.read(x, grid)


def scattered(call: Call, x: Value, dim: int, index: Value, source: Operand) -> Value:
    """Write elements to places along an axis that depend on the data."""
    if not isinstance(source, Value) or not source.shape:
        source = call.expand(call.value(source, x.dtype), index.shape)
    return written_along(x, index, source, _axis(call, x, dim, index), "none", call.origin)
