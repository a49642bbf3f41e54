"""Convolutions of images of three dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral

from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, integer, integers
from autotune.topi.nn.convolve import Form, convolve
from autotune.topi.nn.window import Slide, Window
from autotune.utils.check import Check

OneOrMore = int | Sequence[int]

_WHAT = "conv3d"
_FILTERS = {"NCDHW": "OIDHW", "NDHWC": "DHWIO"}
_AXES = {"N": "nn", "C": "ff", "D": "zz", "H": "yy", "W": "xx"}
_SUMS = {"I": "rc", "D": "rz", "H": "ry", "W": "rx"}


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
    check.one_of("data_layout", data_layout, _FILTERS)
    filters = _FILTERS[data_layout]
    check.one_of("kernel_layout", kernel_layout, ("", filters))
    name = f"conv3d_{data_layout.lower()}"
    sums = {each: _SUMS[each] for each in filters if each in _SUMS}
    form = Form(_WHAT, data_layout, filters, name, name, _AXES, sums)

    def window(size: Mapping[str, int]) -> Window:
        moves = zip("DHW", strides, dilation, padding, strict=True)
        return Window({a: Slide(size[a], step, hole, *sides) for a, step, hole, sides in moves})

    return convolve(form, data, kernel, window, out_dtype)


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
