"""Layouts of arrays other than row-major: tiles of each dimension, permuted.

A kernel that reads weights tile by tile reads one element beside the other where the weights lie
in that order (TVM calls it layout rewrite). Nothing is padded, so each order can be undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from autotune.errors import KernelError
from autotune.kernel.kernel import Argument, Kernel

Array = npt.NDArray[np.generic]
Item = TypeVar("Item", bound=np.generic)


@dataclass(frozen=True)
class TiledLayout:
    """An order of the elements of an array: its dimensions in parts, and those in any order.

    Attributes:
        shape: of the array, row by row.
        parts: (dimension, extent), the outermost first. The parts of a dimension multiply up to
            its extent, and the first of them is its outermost; one of extent 1 needs none.

    Raises:
        KernelError: the parts do not make up the shape.

    Example::

        TiledLayout((8, 6), ((0, 2), (1, 6), (0, 4)))  # [2, 6, 4]: columns of four rows each
    """

    shape: tuple[int, ...]
    parts: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        made = [prod(self.extents_of(i)) for i in range(len(self.shape))]
        known = all(0 <= i < len(self.shape) and n > 0 for i, n in self.parts)
        if not known or tuple(made) != self.shape:
            raise KernelError(
                f"TiledLayout: parts (dimension, extent) must make up the shape {self.shape}, "
                f"got {self.parts}"
            )

    def extents_of(self, dimension: int) -> tuple[int, ...]:
        """Return the extents of the parts of a dimension, the outermost first."""
        return tuple([extent for i, extent in self.parts if i == dimension])

    @property
    def tiled_shape(self) -> tuple[int, ...]:
        """The shape in which the elements are row-major."""
        return tuple([extent for _, extent in self.parts])

    @property
    def is_natural(self) -> bool:
        """Whether the layout is row-major."""
        order = [i for i, extent in self.parts if extent != 1]
        return order == sorted(order)

    @property
    def steps(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The steps of a layout: a shape, a permutation of it, and another shape."""
        split = tuple([n for i in range(len(self.shape)) for n in self.extents_of(i)])
        order = sorted(range(len(self.parts)), key=lambda at: self.parts[at][0])
        return split, tuple([order.index(at) for at in range(len(order))]), self.tiled_shape

    def forward(self, array: npt.NDArray[Item]) -> npt.NDArray[Item]:
        """Return an array of `shape` in this layout, of `tiled_shape`."""
        split, order, shape = self.steps
        return np.ascontiguousarray(array.reshape(split).transpose(order)).reshape(shape)

    def inverse(self, array: npt.NDArray[Item]) -> npt.NDArray[Item]:
        """Return the array of `shape` whose layout is given: `forward` undone."""
        _, order, shape = self.steps
        back = np.argsort(order) if order else ()
        natural = array.reshape(shape).transpose(back)
        return np.ascontiguousarray(natural).reshape(self.shape)

    def places(self, indices: Sequence[Any]) -> tuple[Any, ...]:
        """Return the offset of the element with these indices: numbers or expressions."""
        found, inner = [], list(self.shape)
        for dimension, extent in self.parts:
            outermost = inner[dimension] == self.shape[dimension]
            inner[dimension] //= extent
            place = indices[dimension] // inner[dimension] if inner[dimension] > 1 else (
                indices[dimension]
            )  # fmt: skip
            found.append(place if outermost else place % extent)
        return tuple(found)

    def indices(self, places: Sequence[object]) -> tuple[object, ...]:
        """Return the indices of the element that lies at these places; undoes `places`."""
        found: list[Any] = [0] * len(self.shape)
        for (dimension, extent), place in zip(self.parts, places, strict=True):
            found[dimension] = found[dimension] * extent + place
        return tuple(found)

    def text(self, names: Sequence[str]) -> str:
        """Return the layout as TVM writes it, such as ``4j8j512k``."""
        return "".join(f"{extent}{names[dimension]}" for dimension, extent in self.parts)


@dataclass(frozen=True)
class TiledArgument(Argument):
    """An array that a kernel takes in another layout than row by row.

    Attributes:
        layout: in which it takes it; the shape of the argument is the tiled one.
    """

    layout: TiledLayout = field(default_factory=lambda: TiledLayout((), ()))

    @property
    def natural(self) -> Argument:
        """The array in row-major order."""
        return Argument(self.name, self.layout.shape, self.dtype, self.role)


def natural_args(args: Sequence[Argument]) -> tuple[Argument, ...]:
    """Return arguments in row-major order; only those with another layout change."""
    return tuple([one.natural if isinstance(one, TiledArgument) else one for one in args])


def natural_kernel(kernel: Kernel) -> Kernel:
    """Return a kernel as if all its arrays were in row-major order, as its inputs are drawn."""
    args = natural_args(kernel.args)
    return kernel if args == kernel.args else replace(kernel, args=args)


def laid_out(args: Sequence[Argument], values: Sequence[Array]) -> list[Array]:
    """Return values of arguments, given row by row, in the layouts of these."""
    return [
        one.layout.forward(value) if isinstance(one, TiledArgument) else value
        for one, value in zip(args, values, strict=True)
    ]


def with_layouts(kernel: Kernel, layouts: Sequence[TiledLayout | None]) -> Kernel:
    """Return a kernel that says in which layouts it takes its arguments.

    Args:
        kernel: lowered from a program that reads arrays of tiled shapes.
        layouts: of its arguments, in order; none where they are row-major.

    Raises:
        KernelError: an argument has another shape than its layout.
    """
    if not any(layouts):
        return kernel
    args = []
    for one, layout in zip(kernel.args, layouts, strict=True):
        if layout is None:
            args.append(one)
        elif one.shape != layout.tiled_shape:
            raise KernelError(
                f"kernel {kernel.name!r}: {one.name!r} has the shape {one.shape}, its layout "
                f"{layout.tiled_shape}"
            )
        else:
            args.append(TiledArgument(one.name, one.shape, one.dtype, one.role, layout))
    return replace(kernel, args=tuple(args))
