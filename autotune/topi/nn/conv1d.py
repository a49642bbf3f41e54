"""Convolutions of sequences, in the layouts NCW and NWC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral

from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, integer, integers
from autotune.topi.nn.convolve import Form, convolve
from autotune.topi.nn.window import Slide, Window

Sides = int | str | Sequence[int]
Step = int | Sequence[int]
_FILTERS = {"NCW": "OIW", "NWC": "WIO"}
_AXES = {"N": "b", "C": "c", "W": "w"}


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
    count = integer(1)(check, "groups", groups)
    kind = "conv1d" if count == 1 else "group_conv1d"
    name = f"{kind}_{data_layout.lower()}"
    sums = {"I": "rc", "W": "ry"}
    form = Form("conv1d", data_layout, filters_layout, name, name, _AXES, sums, layout_free=False)

    def window(size: Mapping[str, int]) -> Window:
        return Window({"W": _slide(size["W"], strides, padding, dilation)})

    return convolve(form, data, kernel, window, out_dtype, count)


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
