"""Convolutions of any number of dimensions, in any layout, whole or in groups of channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from autotune import te
from autotune.ir import Expr
from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, dtype_or_none, flag, plain_integer
from autotune.topi.nn.dense import factor_of
from autotune.topi.nn.window import Window, arrange, check_channels, extents


@dataclass(frozen=True)
class Form:
    """How a convolution is written down; workload keys hold all but the first.

    Attributes:
        operator: its name in messages.
        images: layout of the data.
        filters: layout of the filters.
        name: of the computation.
        tag: of the computation.
        axes: names of the axes of the result, by letter.
        sums: names of the axes of the sum, by letter, in the order in which they are summed.
        layout_free: whether the auto-scheduler may choose another layout of the filters.
    """

    operator: str
    images: str
    filters: str
    name: str
    tag: str
    axes: Mapping[str, str]
    sums: Mapping[str, str]
    layout_free: bool = True


def convolve(
    form: Form,
    data: Tensor,
    kernel: Tensor,
    window_of: Callable[[Mapping[str, int]], Window],
    out_dtype: str | None,
    groups: int = 1,
    tf32: bool = False,
) -> Tensor:
    """Convolve data by filters.

    Args:
        form: layouts and names.
        data: the images.
        kernel: the filters.
        window_of: returns the window of filters of some extents, by letter.
        out_dtype: of products and sums; None for that of the data.
        groups: of channels, each with its own filters.
        tf32: multiply float32 as `autotune.te.tf32` has it.

    Raises:
        ExpressionError: they do not fit together.
    """
    what = form.operator
    images = extents(what, "data", data, form.images)
    filters = extents(what, "kernel", kernel, form.filters)
    group_in = _divide(what, images["C"], groups)
    group_out = _divide(what, filters["O"], groups)
    check_channels(what, group_in, filters["I"])
    window = window_of(filters)
    out = {**images, **window.output(what, images), "C": filters["O"]}
    padded = window.pad(data, form.images, "pad_temp")
    element = {each: te.reduce_axis((0, filters[each]), name) for each, name in form.sums.items()}
    dtype = dtype_or_none(asks(what), "out_dtype", out_dtype) or data.dtype
    factor = factor_of(dtype, flag(asks(what), "tf32", tf32))

    def body(*index: Expr) -> Expr:
        at = dict(zip(form.images, index, strict=True))
        first = te.indexdiv(at["C"], group_out) * group_in if groups > 1 else 0
        channel = first + element["I"]
        image = padded(*arrange(form.images, {**at, **window.places(at, element), "C": channel}))
        weight = kernel(*arrange(form.filters, {**element, "O": at["C"]}))
        return te.sum(factor(image) * factor(weight), axis=list(element.values()))

    attrs = {"layout_free_placeholders": [kernel]} if form.layout_free else {}
    names = arrange(form.images, form.axes)
    result: Tensor = te.compute(arrange(form.images, out), body, form.name, form.tag, attrs, names)
    return result


def _divide(what: str, channels: int, groups: int) -> int:
    """Return the channels of one group.

    Raises:
        ExpressionError: the groups do not divide them.
    """
    number = asks(what).whole("groups", plain_integer(groups), least=1)
    if channels % number:
        asks(what).refuse("groups", f"a number that divides {channels} channels", groups)
    return channels // number
