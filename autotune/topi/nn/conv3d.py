"""Convolutions of images of three dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, dtype_or_none, integer, integers
from autotune.topi.nn.pad import pad_axes
from autotune.topi.nn.window import arrange, check_channels, extents
from autotune.topi.utils import axis_names
from autotune.utils.check import Check

OneOrMore = int | Sequence[int]

_WHAT = "conv3d"
_LAYOUTS = {"NCDHW": "OIDHW", "NDHWC": "DHWIO"}


def conv3d(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    data_layout: str = "NCDHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve images of depth, height and width.

    Args:
        data: images in ``data_layout``.
        kernel: filters, OIDHW with NCDHW, DHWIO with NDHWC.
        strides: for depth, height and width.
        padding: zeros (before, after) for depth, height and width.
        dilation: for depth, height and width.
        data_layout: ``"NCDHW"`` or ``"NDHWC"``.
        kernel_layout: the one that goes with it, or nothing.
        out_dtype: of products and sums; None for that of the data.
    """
    check = asks(_WHAT)
    filters_layout = _filters_layout(data_layout, kernel_layout)
    images = extents(_WHAT, "data", data, data_layout)
    filters = extents(_WHAT, "kernel", kernel, filters_layout)
    check_channels(_WHAT, images["C"], filters["I"])
    steps, holes = dict(zip("DHW", strides, strict=True)), dict(zip("DHW", dilation, strict=True))
    sides = dict(zip("DHW", padding, strict=True))
    reach = {axis: (filters[axis] - 1) * holes[axis] + 1 for axis in "DHW"}
    slack = {axis: images[axis] + sum(sides[axis]) - reach[axis] for axis in "DHW"}
    if min(slack.values()) < 0:
        check.refuse("kernel", "no larger than the padded data", kernel)
    out = {**images, "C": filters["O"], **{axis: slack[axis] // steps[axis] + 1 for axis in "DHW"}}
    around = _padded(data, sides, data_layout)
    names = {"I": "rc", "D": "rz", "H": "ry", "W": "rx"}
    element = {axis: te.reduce_axis((0, filters[axis]), name=n) for axis, n in names.items()}
    sums = dtype_or_none(check, "out_dtype", out_dtype) or data.dtype

    def body(*index: Expr) -> object:
        at = dict(zip(data_layout, index, strict=True))
        places = {a: at[a] * steps[a] + element[a] * holes[a] for a in "DHW"}
        image = around(*arrange(data_layout, {**at, **places, "C": element["I"]}))
        weight = kernel(*arrange(filters_layout, {**element, "O": at["C"]}))
        window = [element[a] for a in filters_layout if a in element]
        return te.sum(image.astype(sums) * weight.astype(sums), axis=window)

    called = arrange(data_layout, {"N": "nn", "C": "ff", "D": "zz", "H": "yy", "W": "xx"})
    name = f"conv3d_{data_layout.lower()}"
    attrs = {"layout_free_placeholders": [kernel]}
    result: Tensor = te.compute(arrange(data_layout, out), body, name, name, attrs, called)
    return result


def conv3d_ncdhw(
    data: Tensor,
    kernel: Tensor,
    stride: OneOrMore,
    padding: OneOrMore,
    dilation: OneOrMore = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve data [batch, in, depth, height, width] by filters [out, in, d, h, w].

    Args:
        data: the images.
        kernel: the filters.
        stride: one for all, or of depth, height and width.
        padding: zeros on all sides, of each dimension, or of the three fronts and the three backs.
        dilation: one for all, or of depth, height and width.
        groups: only 1 is known.
        out_dtype: of products and sums; None for that of the data.
    """
    return _called_by_layout("NCDHW", data, kernel, stride, padding, dilation, groups, out_dtype)


def conv3d_ndhwc(
    data: Tensor,
    kernel: Tensor,
    stride: OneOrMore,
    padding: OneOrMore,
    dilation: OneOrMore = 1,
    groups: int = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve data [batch, d, h, w, in] by filters [d, h, w, in, out]; see `conv3d_ncdhw`."""
    return _called_by_layout("NDHWC", data, kernel, stride, padding, dilation, groups, out_dtype)


def _called_by_layout(
    layout: str,
    data: Tensor,
    kernel: Tensor,
    stride: OneOrMore,
    padding: OneOrMore,
    dilation: OneOrMore,
    groups: int,
    out_dtype: str | None,
) -> Tensor:
    check = asks(f"conv3d_{layout.lower()}")
    integer(1, 1)(check, "groups", groups)
    sides = _several(check, "padding", padding, 0, (1, 3, 6))
    fronts, backs = (sides[:3], sides[3:]) if len(sides) == 6 else (sides, sides)
    around = list(zip(fronts, backs, strict=True))
    steps = _several(check, "stride", stride, 1, (1, 3))
    holes = _several(check, "dilation", dilation, 1, (1, 3))
    return conv3d(data, kernel, steps, around, holes, layout, out_dtype=out_dtype)


def _several(
    check: Check, name: str, value: OneOrMore, least: int, counts: tuple[int, ...]
) -> list[int]:
    """Return three whole numbers, or six: one that stands alone is meant for all three."""
    given = integers(least)(check, name, [value] if isinstance(value, Integral) else value)
    if len(given) not in counts:
        check.refuse(name, f"{' or '.join(map(str, counts))} whole numbers", value)
    return given * 3 if len(given) == 1 else given


def global_pool3d(data: Tensor, pool_type: str = "avg", layout: str = "NCDHW") -> Tensor:
    """Pool whole images to one element a channel."""
    check = asks("global_pool3d")
    check.one_of("pool_type", pool_type, ("max", "avg"))
    check.one_of("layout", layout, _LAYOUTS)
    images = extents("global_pool3d", "data", data, layout)
    element = {a: te.reduce_axis((0, images[a]), name=f"rv{i}") for i, a in enumerate("DHW")}
    reducer, name = (te.max, "max") if pool_type == "max" else (te.sum, "sum")

    def body(*index: Expr) -> object:
        at = dict(zip(layout, index, strict=True))
        read = {a: at[a] * images[a] + element[a] for a in "DHW"}
        return reducer(data(*arrange(layout, {**at, **read})), axis=list(element.values()))

    shape = arrange(layout, {**images, "D": 1, "H": 1, "W": 1})
    axes = axis_names(5)
    kind = f"adaptive_pool_{name}"
    pooled: Tensor = te.compute(shape, body, kind, kind, varargs_names=axes)
    if pool_type == "max":
        return pooled
    count = te.const(images["D"] * images["H"] * images["W"], data.dtype)
    result: Tensor = te.compute(
        shape, lambda *i: pooled(*i) / count, "adaptive_pool_avg", "elemwise", varargs_names=axes
    )
    return result


def _filters_layout(data_layout: str, kernel_layout: str) -> str:
    """Return the layout of filters that goes with that of images."""
    check = asks(_WHAT)
    check.one_of("data_layout", data_layout, _LAYOUTS)
    check.one_of("kernel_layout", kernel_layout, ("", _LAYOUTS[data_layout]))
    return _LAYOUTS[data_layout]


def _padded(data: Tensor, sides: Mapping[str, tuple[int, int]], layout: str) -> Tensor:
    before, after = ([sides.get(axis, (0, 0))[end] for axis in layout] for end in (0, 1))
    return pad_axes(data, before, after, 0.0, "pad_temp", axis_names(5, "i"))
