"""Infers the sizes of a kernel, such as a symbolic extent, from the arguments of a call."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.errors import KernelError
from autotune.kernel.kernel import Argument, Kernel, Scalar
from autotune.kernel.scalar import scalar_value
from autotune.kernel.sizes import Size


def with_sizes(kernel: Kernel, values: Sequence[object]) -> tuple[Kernel, tuple[object, ...]]:
    """Return a kernel with its sizes put in, and all that it takes.

    An extent that is a size by itself says what the size is; all others are checked later, as
    those of any kernel are.

    Raises:
        KernelError: the number of arguments, a number of dimensions or two extents do not fit.
    """
    sizes = kernel.sizes
    if sizes is None:
        return kernel, tuple(values)
    own = kernel.args[: len(kernel.args) - len(sizes.hidden)]
    if len(values) != len(own):
        names = ", ".join(a.name for a in own)
        raise KernelError(
            f"{kernel.name}: expected {len(own)} arguments ({names}), got {len(values)}"
        )
    found = _Found(kernel.name)
    for argument, shape, value in zip(own, sizes.args, values, strict=False):
        if isinstance(argument, Scalar):
            if argument.name in sizes.names:
                found.number(argument, value)
        else:
            found.shape(argument, shape, value)
    fixed = kernel.at(found.values)
    return fixed, (*values, *[found.values[name] for name in sizes.hidden])


class _Found:
    """The sizes found so far, and where."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.values: dict[str, int] = {}
        self._where: dict[str, str] = {}

    def number(self, argument: Argument, value: object) -> None:
        """Note a size that is an argument."""
        plain = value.numpy() if hasattr(value, "numpy") else value
        where = f"{self.kernel}: argument {argument.name!r}"
        self._note(argument.name, int(scalar_value(where, argument.dtype, plain)), "an argument")

    def shape(self, argument: Argument, shape: Sequence[Size], value: object) -> None:
        """Note the sizes that the shape of an array says."""
        extents = getattr(value, "shape", None)
        if extents is None or len(extents) != len(shape):
            got = f"shape {tuple(extents)}" if extents is not None else type(value).__name__
            raise KernelError(
                f"{self.kernel}: argument {argument.name!r}: expected an array of {len(shape)} "
                f"dimensions, got {got}"
            )
        for axis, (size, extent) in enumerate(zip(shape, extents, strict=True)):
            if isinstance(size, str):
                self._note(size, int(extent), f"dimension {axis} of {argument.name!r}")

    def _note(self, name: str, value: int, where: str) -> None:
        known = self.values.setdefault(name, value)
        first = self._where.setdefault(name, where)
        if known != value:
            raise KernelError(
                f"{self.kernel}: {where}: expected {name} = {known}, as {first} says, got {value}"
            )
