"""Convolutions of sequences, in the layouts NCW and NWC."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, dtype_or_none, integer, integers
from autotune.topi.nn.pad import pad_axes
from autotune.topi.nn.window import Slide, arrange, check_channels, extents
from autotune.topi.utils import axis_names

Sides = int | str | Sequence[int]
Step = int | Sequence[int]
_FILTERS = {"NCW": "OIW", "NWC": "WIO"}


def conv1d(
    data: Tensor,
    kernel: Tensor,
    strides: Step = 1,
    padding: Sides = "VALID",
    dilation: Step = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve sequences by filters, OIW with NCW, WIO with NWC.

    Args:
        data: the sequences, in ``data_layout``.
        kernel: the filters.
        strides: elements from one window to the next.
        padding: zeros before and after: a number, two, ``"VALID"`` (none) or ``"SAME"``.
        dilation: elements from one of a window to the next.
        groups: of channels, each with its own filters.
        data_layout: ``"NCW"`` or ``"NWC"``.
        kernel_layout: the one that goes with it, or nothing.
        out_dtype: of products and sums; None for that of the data.
    """
    check = asks("conv1d")
    check.one_of("data_layout", data_layout, _FILTERS)
    filters_layout = _FILTERS[data_layout]
    check.one_of("kernel_layout", kernel_layout, ("", filters_layout))
    sequences = extents("conv1d", "data", data, data_layout)
    filters = extents("conv1d", "kernel", kernel, filters_layout)
    count = integer(1)(check, "groups", groups)
    if sequences["C"] % count or filters["O"] % count:
        channels = f"{sequences['C']} and {filters['O']} channels"
        check.refuse("groups", f"a number that divides {channels}", groups)
    group_in, group_out = sequences["C"] // count, filters["O"] // count
    check_channels("conv1d", group_in, filters["I"])
    slide = _slide(filters["W"], strides, padding, dilation)
    width = slide.outputs(sequences["W"])
    if width < 1:
        check.refuse("kernel", "no longer than the padded data", kernel)
    before, after = (
        [side if axis == "W" else 0 for axis in data_layout]
        for side in (slide.before, slide.after)
    )
    padded = pad_axes(data, before, after, 0.0, "pad_temp", axis_names(3, "i"))
    rc, rw = te.reduce_axis((0, group_in), "rc"), te.reduce_axis((0, slide.extent), "ry")
    sums = dtype_or_none(check, "out_dtype", out_dtype) or data.dtype

    def body(*index: Expr) -> object:
        at = dict(zip(data_layout, index, strict=True))
        first = te.indexdiv(at["C"], group_out) * group_in if count > 1 else 0
        read = {**at, "W": slide.place(at["W"], rw), "C": first + rc}
        weight = kernel(*arrange(filters_layout, {"O": at["C"], "I": rc, "W": rw}))
        element = padded(*arrange(data_layout, read))
        return te.sum(element.astype(sums) * weight.astype(sums), axis=[rc, rw])

    name = f"conv1d_{data_layout.lower()}" if count == 1 else f"group_conv1d_{data_layout.lower()}"
    called = arrange(data_layout, {"N": "b", "C": "c", "W": "w"})
    shape = arrange(data_layout, {**sequences, "C": filters["O"], "W": width})
    result: Tensor = te.compute(shape, body, name, name, varargs_names=called)
    return result


def conv1d_ncw(
    data: Tensor,
    kernel: Tensor,
    strides: Step = 1,
    padding: Sides = "VALID",
    dilation: Step = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve data [batch, in, width] by filters [out, in, width]; see `conv1d`."""
    return conv1d(data, kernel, strides, padding, dilation, 1, "NCW", out_dtype=out_dtype)


def conv1d_nwc(
    data: Tensor,
    kernel: Tensor,
    strides: Step = 1,
    padding: Sides = "VALID",
    dilation: Step = 1,
    out_dtype: str | None = None,
) -> Tensor:
    """Convolve data [batch, width, in] by filters [width, in, out]; see `conv1d`."""
    return conv1d(data, kernel, strides, padding, dilation, 1, "NWC", out_dtype=out_dtype)


def _slide(extent: int, strides: Step, padding: Sides, dilation: Step) -> Slide:
    step, apart = _single("strides", strides), _single("dilation", dilation)
    reach = (extent - 1) * apart + 1
    if isinstance(padding, str):
        asks("conv1d").one_of("padding", padding, ("VALID", "SAME"))
        both = reach - 1 if padding == "SAME" else 0
        return Slide(extent, step, apart, both // 2, both - both // 2)
    check, given = asks("conv1d"), [padding] if isinstance(padding, Integral) else padding
    sides = integers(0)(check, "padding", given)
    if len(sides) not in (1, 2):
        check.refuse("padding", "a whole number, two of them, 'SAME' or 'VALID'", padding)
    return Slide(extent, step, apart, sides[0], sides[-1])


def _single(name: str, value: Step) -> int:
    """Return a number that may stand in a list of its own."""
    single = value[0] if isinstance(value, Sequence) and len(value) == 1 else value
    return integer(1)(asks("conv1d"), name, single)
