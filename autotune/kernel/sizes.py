"""Sizes: numbers that extents depend on, and that are known only when a function is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from autotune.errors import KernelError

if TYPE_CHECKING:
    from autotune.kernel.kernel import Kernel, KernelCall

# An extent: a number, the name of a size, or an operator and its operands.
Size = int | str | tuple[str, "Size", "Size"]

# Quotients and remainders are of numbers that are not negative.
OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "/": int.__floordiv__,
    "%": int.__mod__,
    "min": min,
    "max": max,
}
# Indices of kernels are 32-bit integers where sizes are.
MOST_ELEMENTS = 2**31 - 1


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """Return the value of an extent."""
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return values[size]
    operator, a, b = size
    return OPERATORS[operator](evaluate(a, values), evaluate(b, values))


def shown(size: Size) -> str:
    """Return an extent as text."""
    if not isinstance(size, tuple):
        return str(size)
    operator, a, b = size
    if operator in ("min", "max"):
        return f"{operator}({shown(a)}, {shown(b)})"
    left, right = (f"({shown(x)})" if isinstance(x, tuple) else shown(x) for x in (a, b))
    return f"{left} {operator} {right}"


@dataclass(frozen=True)
class Sizes:
    """Which extents of a kernel depend on sizes.

    A kernel with sizes holds numbers in their place that mean nothing; `Kernel.at` puts in what
    they are.

    Attributes:
        names: of all sizes; scalar arguments of the kernel are called so.
        hidden: of those that no caller passes: they follow from the shapes of arrays, and are
            the last arguments of the kernel.
        args: the shape of each argument.
        workspace: the shape of each workspace.
        grids: the blocks of each call.
    """

    names: tuple[str, ...]
    hidden: tuple[str, ...]
    args: tuple[tuple[Size, ...], ...]
    workspace: tuple[tuple[Size, ...], ...]
    grids: tuple[tuple[Size, Size, Size], ...]

    def fixed(self, kernel: Kernel, values: Mapping[str, int]) -> Kernel:
        """Return the kernel with its sizes put in.

        Raises:
            KernelError: an extent is less than 1, or an array too large for 32-bit indices.
        """
        pairs = zip(kernel.args, self.args, strict=True)
        spaces = zip(kernel.workspace, self.workspace, strict=True)
        calls = zip(kernel.calls, self.grids, strict=True)
        return replace(
            kernel,
            args=tuple([_fixed(kernel.name, one, shape, values) for one, shape in pairs]),
            workspace=tuple([_fixed(kernel.name, one, shape, values) for one, shape in spaces]),
            calls=tuple([_launched(one, grid, values) for one, grid in calls]),
            sizes=None,
        )


def _fixed(kernel: str, one: Any, shape: tuple[Size, ...], values: Mapping[str, int]) -> Any:
    """Return an argument or workspace of the shape that it has with these sizes."""
    if not shape:
        return replace(one, value=values[one.name]) if one.name in values else one
    extents = tuple([evaluate(size, values) for size in shape])
    total = 1
    for extent in extents:
        total *= extent
    if min(extents) < 1 or total > MOST_ELEMENTS:
        known = ", ".join(f"{name} = {value}" for name, value in values.items())
        raise KernelError(
            f"{kernel}: {one.name!r} would have the shape {extents} with {known}; expected "
            f"extents of at least 1, and at most {MOST_ELEMENTS} elements"
        )
    return replace(one, shape=extents)


def _launched(
    one: KernelCall, grid: tuple[Size, Size, Size], values: Mapping[str, int]
) -> KernelCall:
    x, y, z = (evaluate(size, values) for size in grid)
    return replace(one, launch=replace(one.launch, grid=(x, y, z)))
