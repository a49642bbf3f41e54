"""Windows moving over images of any layout: what convolutions and pooling share.

A layout names the axes of a tensor by letters: of images N the image, C its channel, H its row and
W its column; of filters O the output and I the input channel. What belongs to an axis (its extent,
an index, a reduction axis) is kept under its letter; `arrange` puts it where a tensor has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from autotune import te
from autotune.errors import ExpressionError
from autotune.ir import Expr
from autotune.ir.base import Operand
from autotune.te.tensor import Tensor
from autotune.topi.arguments import asks, pair
from autotune.topi.nn.pad import Padding, get_pad_tuple, pad_axes
from autotune.topi.types import OneOrTwo
from autotune.topi.utils import axis_names, static_shape

T = TypeVar("T")


def extents(what: str, name: str, tensor: Tensor, layout: str) -> dict[str, int]:
    """Return the extents of the tensor that is argument ``name``, under its layout's letters."""
    return dict(zip(layout, static_shape(what, name, tensor, len(layout)), strict=True))


def arrange(layout: str, values: Mapping[str, T]) -> list[T]:
    """Return what stands under each letter of a layout; other letters are left out."""
    return [values[letter] for letter in layout]


@dataclass(frozen=True)
class Slide:
    """The motion of a window along one axis: ``extent`` elements, ``dilation`` apart."""

    extent: int
    stride: int
    dilation: int
    before: int
    after: int

    def outputs(self, extent: int) -> int:
        """Return in how many places the window fits into an axis and its padding."""
        reach = (self.extent - 1) * self.dilation + 1
        return (extent + self.before + self.after - reach) // self.stride + 1

    def place(self, at: Expr, element: Operand) -> Expr:
        """Return the padded index that output ``at`` meets at an element of the window."""
        return at * self.stride + element * self.dilation


@dataclass(frozen=True)
class Window:
    """A window moving over padded images: its motion along each axis, by letter."""

    slides: Mapping[str, Slide]

    @staticmethod
    def of(
        what: str, size: Mapping[str, int], stride: OneOrTwo, padding: Padding, dilation: OneOrTwo
    ) -> Window:
        """Return a window of rows and columns; ``what`` names the operator in messages."""
        check = asks(what)
        steps, holes = pair()(check, "stride", stride), pair()(check, "dilation", dilation)
        reach = [(size[a] - 1) * d + 1 for a, d in zip("HW", holes, strict=True)]
        sides = get_pad_tuple(padding, reach, what)
        columns = zip("HW", steps, holes, sides[:2], sides[2:], strict=True)
        return Window({a: Slide(size[a], *rest) for a, *rest in columns})

    def output(self, what: str, images: Mapping[str, int]) -> dict[str, int]:
        """Return the extents of the output along the axes of the window."""
        found = {a: slide.outputs(images[a]) for a, slide in self.slides.items()}
        if min(found.values()) < 1:
            slides = self.slides.values()
            size = "x".join(str(slide.extent) for slide in slides)
            dilation = ", ".join(str(slide.dilation) for slide in slides)
            image = "x".join(str(images[a]) for a in self.slides)
            padding = (*(slide.before for slide in slides), *(slide.after for slide in slides))
            raise ExpressionError(
                f"{what}: kernel must not reach beyond the padded data, got a window of {size} "
                f"with dilation {dilation}: it does not fit into data of {image} with padding "
                f"{padding}"
            )
        return found

    def pad(
        self, data: Tensor, layout: str, name: str, value: object = 0.0, axes: str = "i"
    ) -> Tensor:
        """Surround images with as much as the window may read beyond them.

        ``axes`` is what the names of its axes begin with; they enter workload keys.
        """
        before = [self.slides[a].before if a in self.slides else 0 for a in layout]
        after = [self.slides[a].after if a in self.slides else 0 for a in layout]
        return pad_axes(data, before, after, value, name, axis_names(data.ndim, axes))

    def rounded_up(self) -> Window:
        """Let windows reach beyond the padding, so that every element is in one."""
        return Window(
            {a: replace(s, after=s.after + s.stride - 1) for a, s in self.slides.items()}
        )

    def axes(self, *names: str) -> dict[str, te.IterVar]:
        """Make reduction axes of the given names over the elements of the window."""
        named = zip(self.slides.items(), names, strict=True)
        return {a: te.reduce_axis((0, slide.extent), name) for (a, slide), name in named}

    def places(self, at: Mapping[str, Expr], element: Mapping[str, Operand]) -> dict[str, Expr]:
        """Return the padded indices that an output meets at an element of the window."""
        return {a: slide.place(at[a], element[a]) for a, slide in self.slides.items()}


def check_channels(what: str, data: int, kernel: int) -> None:
    """Raise when data and filter disagree on the number of input channels."""
    if data != kernel:
        asks(what).refuse("kernel", f"of {data} input channels, as the data is", kernel)
