"""What the convolutions share: checked extents, strides, paddings and output sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotune.errors import ExpressionError
from autotune.topi.nn.pad import Padding, get_pad_tuple
from autotune.topi.utils import pair


@dataclass(frozen=True)
class Window:
    """A filter moving over a padded image."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]

    @staticmethod
    def of(
        what: str, kernel: tuple[int, int], stride: Any, padding: Padding, dilation: Any
    ) -> Window:
        """Check and normalise; ``what`` names the operator in messages."""
        steps, holes = pair(f"{what}: stride", stride), pair(f"{what}: dilation", dilation)
        if min(*steps, *holes) < 1:
            raise ExpressionError(
                f"{what}: stride and dilation must be at least 1, got {stride} and {dilation}"
            )
        spread = tuple((k - 1) * d + 1 for k, d in zip(kernel, holes, strict=True))
        return Window(kernel, steps, holes, get_pad_tuple(padding, spread))

    def output(self, what: str, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of the output."""
        top, left, bottom, right = self.padding
        (kh, kw), (dh, dw) = self.kernel, self.dilation
        rows = (height + top + bottom - (kh - 1) * dh - 1) // self.stride[0] + 1
        columns = (width + left + right - (kw - 1) * dw - 1) // self.stride[1] + 1
        if rows < 1 or columns < 1:
            raise ExpressionError(
                f"{what}: a {kh}x{kw} filter with dilation {dh}, {dw} does not fit into the "
                f"{height}x{width} image with padding {self.padding}"
            )
        return rows, columns

    def rows(self, y: Any, ry: Any) -> Any:
        """Return the padded row that output row ``y`` meets at filter row ``ry``."""
        return y * self.stride[0] + ry * self.dilation[0]

    def columns(self, x: Any, rx: Any) -> Any:
        """Return the padded column that output column ``x`` meets at filter column ``rx``."""
        return x * self.stride[1] + rx * self.dilation[1]


def divide_channels(what: str, channels: int, groups: int) -> int:
    """Return the channels of one group.

    Raises:
        ExpressionError: the groups do not divide them.
    """
    if groups < 1 or channels % groups:
        raise ExpressionError(f"{what}: {groups} groups do not divide {channels} channels")
    return channels // groups


def check_channels(what: str, data: int, kernel: int) -> None:
    """Raise when data and filter disagree on the number of input channels."""
    if data != kernel:
        raise ExpressionError(
            f"{what}: the data has {data} input channels, the filter expects {kernel}"
        )
