"""Convolutions of ``relay.nn`` and their gradients, of one to three dimensions, in any groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from autotune.errors import GraphError
from autotune.graph import Value, apply, ops
from autotune.tvm.relay.arguments import (
    Numbers,
    check_values,
    each_axis,
    sides_of,
    whole_numbers,
    windows,
)
from autotune.tvm.relay.forms import in_layout, operands, settle_filters
from autotune.tvm.relay.rearranged import reshape, reverse, split
from autotune.utils.check import Check

__all__ = [
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
]

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
_KINDS: dict[int, type[ops.Convolution]] = {2: ops.Conv2d, 3: ops.Conv3d}


class Convolve(Protocol):
    """A convolution as relay calls it."""

    def __call__(
        self,
        data: Value,
        weight: Value,
        strides: Numbers = 1,
        padding: Numbers = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        channels: int | None = None,
        kernel_size: Numbers | None = None,
        data_layout: str = ...,
        kernel_layout: str = ...,
        out_layout: str = "",
        out_dtype: str = "",
    ) -> Value:
        """Convolve images by filters."""


def _convolution(dims: int) -> Convolve:
    """Make the function for images of some dimensions, channels first by default."""
    name, space = f"nn.conv{dims}d", _SPATIAL[dims]

    def operator(
        data: Value,
        weight: Value,
        strides: Numbers = 1,
        padding: Numbers = 0,
        dilation: Numbers = 1,
        groups: int = 1,
        channels: int | None = None,
        kernel_size: Numbers | None = None,
        data_layout: str = "NC" + space,
        kernel_layout: str = "OI" + space,
        out_layout: str = "",
        out_dtype: str = "",
    ) -> Value:
        check_values(name, data=data, weight=weight)
        check = Check(GraphError, name)
        check.one_of("data_layout", data_layout, ("NC" + space, "N" + space + "C"))
        if not isinstance(kernel_layout, str) or sorted(kernel_layout) != sorted("OI" + space):
            check.refuse("kernel_layout", f"a permutation of OI{space}", kernel_layout)
        check.whole("groups", groups, least=1)
        if data.type.ndim != dims + 2:
            check.refuse("data", f"of the dimensions {data_layout}", data.type)
        settle_filters(data, weight, (data_layout, kernel_layout), channels, kernel_size, groups)
        data, weight = operands(name, out_dtype, data=data, weight=weight)
        extents = _extents(name, weight, kernel_layout, kernel_size)
        inputs = data.shape[data_layout.index("C")]
        each = 1 < groups == inputs == extents["O"]
        if not each and extents["I"] * groups != inputs:
            check.refuse("weight", f"of {inputs} input channels in {groups} groups", weight.type)
        _makes(name, weight, channels, extents["O"] * (extents["I"] if each else 1))
        moves = windows(name, strides, padding, dilation)
        weight, kernel_layout = _filters(weight, data_layout, kernel_layout, each)
        found = _convolved(data, weight, moves, groups, data_layout, kernel_layout)
        return in_layout(name, found, data_layout, out_layout)

    operator.__name__ = operator.__qualname__ = name.removeprefix("nn.")
    operator.__doc__ = f"Convolve images of {dims} dimensions."
    return operator


def _extents(op: str, weight: Value, layout: str, kernel: Numbers | None) -> dict[str, int]:
    """Return the extents of filters by their letters; refuse windows of another size."""
    if len(layout) != len(weight.shape):
        raise GraphError(f"{op}: weight must have the dimensions {layout}, got {weight.type}")
    found = dict(zip(layout, weight.shape, strict=True))
    spatial = tuple(found[letter] for letter in layout if letter in "DHW")
    window = spatial if kernel is None else whole_numbers(op, "kernel_size", kernel)
    if (window * len(spatial) if len(window) == 1 else window) != spatial:
        raise GraphError(f"{op}: weight must have windows {kernel}, got {weight.type}")
    return found


def _makes(op: str, weight: Value, channels: int | None, made: int) -> None:
    """Refuse a number of channels that is not that of the result."""
    if channels not in (None, made):
        raise GraphError(f"{op}: weight must have {channels} output channels, got {weight.type}")


def _filters(weight: Value, data_layout: str, kernel_layout: str, each: bool) -> tuple[Value, str]:
    """Return filters, or some for each channel, in a layout for the images, and that layout."""
    found = dict(zip(kernel_layout, weight.shape, strict=True))
    if each and found["I"] == 1 and (data_layout, kernel_layout) == ("NHWC", "HWOI"):
        return weight, kernel_layout
    space = "".join(letter for letter in data_layout if letter in "DHW")
    wanted = "OI" + space if data_layout[1] == "C" else space + "IO"
    if each and found["I"] > 1:  # several filters for each channel, side by side
        weight = _permuted(weight, kernel_layout, "OI" + space)
        rest = weight.shape[2:]
        weight = apply(ops.Reshape((found["O"] * found["I"], 1, *rest)), weight)
        kernel_layout = "OI" + space
    return _permuted(weight, kernel_layout, wanted), wanted


def _permuted(value: Value, layout: str, wanted: str) -> Value:
    if layout == wanted:
        return value
    return apply(ops.Transpose(tuple(layout.index(letter) for letter in wanted)), value)


def _convolved(
    data: Value,
    weight: Value,
    moves: Sequence[tuple[int, ...]],
    groups: int,
    data_layout: str,
    kernel_layout: str,
) -> Value:
    """Convolve; lines as images of one row, and groups of volumes one by one."""
    steps, sides, holes = moves
    dims = len(data_layout) - 2
    if dims == 1:
        name = "nn.conv1d"
        before, after = sides_of(name, sides, 1)
        (step,), (hole,) = (
            each_axis(name, "strides", steps, 1),
            each_axis(name, "dilation", holes, 1),
        )
        in_rows = (1, step), (0, before, 0, after), (1, hole)
        layouts = [layout.replace("W", "HW") for layout in (data_layout, kernel_layout)]
        rows = in_a_row(data, data_layout), in_a_row(weight, kernel_layout)
        return of_a_row(_convolved(*rows, in_rows, groups, layouts[0], layouts[1]), layouts[0])
    kind = _KINDS[dims]
    one_by_one = groups > 1 and kind is ops.Conv3d
    op = kind(steps, sides, holes, 1 if one_by_one else groups, data_layout, kernel_layout)
    if not one_by_one:
        return apply(op, data, weight)
    axes = data_layout.index("C"), kernel_layout.index("O")
    return _by_groups("nn.conv3d", data, weight, groups, axes, lambda *each: apply(op, *each))


def _by_groups(
    name: str,
    data: Value,
    weight: Value,
    groups: int,
    axes: tuple[int, int],
    convolve: Callable[[Value, Value], Value],
) -> Value:
    """Convolve groups of channels one by one.

    Args:
        name: of the operator.
        data: images.
        weight: filters.
        groups: how many there are.
        axes: those of the channels, and of the filters.
        convolve: the convolution of one group.
    """
    for value, axis in zip((data, weight), axes, strict=True):
        if value.shape[axis] % groups:
            expected = f"a number that divides {value.shape[axis]}"
            Check(GraphError, name).refuse("groups", expected, groups)
    pairs = zip(split(data, groups, axes[0]), split(weight, groups, axes[1]), strict=True)
    return apply(ops.Concatenate(axes[0]), *[convolve(a, b) for a, b in pairs])


class Spread(Protocol):
    """A transposed convolution as relay calls it."""

    def __call__(
        self,
        data: Value,
        weight: Value,
        strides: Numbers = 1,
        padding: Numbers = 0,
        dilation: Numbers = 1,
        channels: int | None = None,
        kernel_size: Numbers | None = None,
        groups: int = 1,
        data_layout: str = ...,
        kernel_layout: str = ...,
        out_layout: str = "",
        output_padding: Numbers = 0,
        out_dtype: str = "",
    ) -> Value:
        """Spread images by filters [in, out / groups, ...]."""


def _transposed(dims: int) -> Spread:
    """Make the function for images of some dimensions, channels first."""
    name, space = f"nn.conv{dims}d_transpose", _SPATIAL[dims]
    own = "IO" + space

    def operator(
        data: Value,
        weight: Value,
        strides: Numbers = 1,
        padding: Numbers = 0,
        dilation: Numbers = 1,
        channels: int | None = None,
        kernel_size: Numbers | None = None,
        groups: int = 1,
        data_layout: str = "NC" + space,
        kernel_layout: str = own,
        out_layout: str = "",
        output_padding: Numbers = 0,
        out_dtype: str = "",
    ) -> Value:
        check_values(name, data=data, weight=weight)
        check = Check(GraphError, name)
        check.one_of("data_layout", data_layout, ("NC" + space, f"N{space}C"))
        filters = _spread_layout(check, kernel_layout, space)
        check.whole("groups", groups, least=1)
        if data.type.ndim != dims + 2:
            check.refuse("data", f"of the dimensions {data_layout}", data.type)
        each = channels if channels is None else channels // groups
        settle_filters(data, weight, (data_layout, filters), each, kernel_size)
        data, weight = operands(name, out_dtype, data=data, weight=weight)
        made = _extents(name, weight, filters, kernel_size)["O"]
        _makes(name, weight, channels, made * groups)
        data, weight = _permuted(data, data_layout, "NC" + space), _permuted(weight, filters, own)
        if data.shape[1] != weight.shape[0]:
            check.refuse("weight", f"[in, out, ...] for data {data.type}", weight.type)
        numbers = _Spreading(
            each_axis(name, "strides", strides, dims),
            sides_of(name, padding, dims),
            each_axis(name, "dilation", dilation, dims),
            each_axis(name, "output_padding", output_padding, dims, least=0),
        )
        found = numbers.of_groups(name, data, weight, groups)
        return in_layout(name, found, "NC" + space, out_layout or data_layout)

    operator.__name__ = operator.__qualname__ = name.removeprefix("nn.")
    operator.__doc__ = f"Spread images of {dims} dimensions by filters [in, out / groups, ...]."
    return operator


def _spread_layout(check: Check, layout: str, space: str) -> str:
    """Return the layout of filters with I for what is read and O for what is made.

    TVM's default calls filters [in, out, ...] by either name; where it has one, O is what is read.
    """
    first, other = "IO" + space, "OI" + space
    if layout in (first, other):
        return first
    if len(space) == 2 or not isinstance(layout, str) or sorted(layout) != sorted(first):
        forms = f"{first} or {other}" if len(space) == 2 else f"a permutation of {other}"
        check.refuse("kernel_layout", forms, layout)
    return layout.translate(str.maketrans("IO", "OI"))


@dataclass(frozen=True)
class _Spreading:
    """How images are spread; paddings before all axes and then after all."""

    steps: tuple[int, ...]
    sides: tuple[int, ...]
    holes: tuple[int, ...]
    more: tuple[int, ...]

    def of_groups(self, name: str, data: Value, weight: Value, groups: int) -> Value:
        """Spread each group of channels by its filters."""
        if groups == 1:
            return self.of(data, weight)
        return _by_groups(name, data, weight, groups, (1, 0), self.of)

    def of(self, data: Value, weight: Value) -> Value:
        """Spread images by filters [in, out, ...]."""
        dims = len(self.steps)
        small = all(more < step for more, step in zip(self.more, self.steps, strict=True))
        if dims == 3 or set(self.holes) != {1} or not small:
            return self._by_zeros(data, weight)
        if dims == 2:
            op = ops.Conv2dTranspose(self.steps, self.sides, self.more)
            return apply(op, data, weight)
        (before, after), (step,), (more,) = self.sides, self.steps, self.more
        row = _Spreading((1, step), (0, before, 0, after), (1, 1), (0, more))
        spread = row.of(in_a_row(data, "NCW"), in_a_row(weight, "IOW"))
        return of_a_row(spread, "NCHW")

    def _by_zeros(self, data: Value, weight: Value) -> Value:
        """Put zeros between the elements, and convolve by the flipped filters."""
        dims = len(self.steps)
        extents = data.shape[2:]
        apart = [n for extent in extents for n in (extent, 1)]
        gaps = [pair for step in self.steps for pair in ((0, 0), (0, step - 1))]
        wide = apply(ops.Pad(((0, 0), (0, 0), *gaps)), reshape(data, (*data.shape[:2], *apart)))
        places = [n * step for n, step in zip(extents, self.steps, strict=True)]
        wide = reshape(wide, (*data.shape[:2], *places))
        flipped = apply(ops.Transpose((1, 0, *range(2, dims + 2))), weight)
        begin, end, around = [0, 0], [*data.shape[:2]], []
        for axis in range(dims):
            flipped = reverse(flipped, axis + 2)
            reach = (weight.shape[axis + 2] - 1) * self.holes[axis]
            before = reach - self.sides[axis]
            after = reach - self.sides[dims + axis] + self.more[axis]
            around.append((max(before, 0), max(after, 0)))
            begin.append(max(-before, 0))
            end.append((extents[axis] - 1) * self.steps[axis] + 1 - max(-after, 0))
        if any(a >= b for a, b in zip(begin, end, strict=True)):
            expected = f"less than what {weight.type} spreads {data.type} to"
            Check(GraphError, f"nn.conv{dims}d_transpose").refuse("padding", expected, self.sides)
        wide = apply(ops.StridedSlice(tuple(begin), tuple(end)), wide)
        sides = (*[before for before, _ in around], *[after for _, after in around])
        moves = (1,) * dims, sides, self.holes
        space = _SPATIAL[dims]
        return _convolved(wide, flipped, moves, 1, "NC" + space, "OI" + space)


def in_a_row(value: Value, layout: str) -> Value:
    """Return lines as images of one row."""
    at = layout.index("W")
    return reshape(value, (*value.shape[:at], 1, *value.shape[at:]))


def of_a_row(value: Value, layout: str) -> Value:
    """Return images of one row as lines."""
    at = layout.index("H")
    return reshape(value, (*value.shape[:at], *value.shape[at + 1 :]))


conv1d, conv2d, conv3d = map(_convolution, (1, 2, 3))
conv1d_transpose, conv2d_transpose, conv3d_transpose = map(_transposed, (1, 2, 3))
