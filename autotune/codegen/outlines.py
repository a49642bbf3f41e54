"""The arguments and workspaces of a function as a `Kernel` has them; shapes may be symbolic."""

from __future__ import annotations

from typing import cast

from autotune.codegen.identifiers import Names
from autotune.errors import LoweringError
from autotune.ir import (
    Add,
    BinaryOp,
    Buffer,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from autotune.kernel.kernel import Argument, Role, Scalar, Workspace
from autotune.kernel.sizes import Size, Sizes
from autotune.lowering import LoweredFunction, LoweredKernel

_SYMBOLS: dict[type[BinaryOp], str] = {
    Add: "+", Sub: "-", Mul: "*", TruncDiv: "/", FloorDiv: "/", TruncMod: "%", FloorMod: "%",
    Min: "min", Max: "max",
}  # fmt: skip


class Outlines:
    """The arguments and workspaces of a function.

    Args:
        function: what they are of.
        names: of its buffers and numbers.
    """

    def __init__(self, function: LoweredFunction, names: Names) -> None:
        self.function = function
        self.names = names

    def args(self) -> tuple[Argument, ...]:
        """Return the arguments, those last that follow from the shapes of others."""
        pairs = zip(self.function.args, self.function.roles, strict=True)
        hidden = [(var, "in") for var in self.function.sizes]
        return tuple([self._argument(one, role) for one, role in (*pairs, *hidden)])

    def _argument(self, one: Buffer | Var, role: str) -> Argument:
        name = self.names[one]
        if isinstance(one, Var):
            return Scalar(name, one.dtype)
        return Argument(name, self._first_shape(one), one.dtype, cast(Role, role))

    def workspace(self) -> tuple[Workspace, ...]:
        """Return the workspaces."""
        return tuple(
            Workspace(self.names[b], self._first_shape(b), b.dtype)
            for b in self.function.workspaces
        )

    def sizes(self) -> Sizes | None:
        """Return which extents depend on sizes; None if none does."""
        function = self.function
        arrays = [*function.args, *function.workspaces]
        shapes = [b.shape if isinstance(b, Buffer) else () for b in arrays]
        grids = [kernel.grid for kernel in function.kernels]
        if all(isinstance(extent, int) for each in (*shapes, *grids) for extent in each):
            return None
        hidden = tuple([self.names[var] for var in function.sizes])
        numbers = [a for a in function.args if isinstance(a, Var) and a.dtype == "int32"]
        own = len(function.args)
        return Sizes(
            names=(*[self.names[var] for var in numbers], *hidden),
            hidden=hidden,
            args=(*map(self._shape, shapes[:own]), *[()] * len(hidden)),
            workspace=tuple(map(self._shape, shapes[own:])),
            grids=tuple([(self.size(x), self.size(y), self.size(z)) for x, y, z in grids]),
        )

    def _shape(self, shape: tuple[int | Expr, ...]) -> tuple[Size, ...]:
        return tuple(map(self.size, shape))

    def size(self, extent: int | Expr) -> Size:
        """Return an extent as plain data."""
        match extent:
            case int():
                return extent
            case IntImm(value):
                return value
            case Var() if extent in self.names:
                return self.names[extent]
            case BinaryOp(a, b) if type(extent) in _SYMBOLS:
                return _SYMBOLS[type(extent)], self.size(a), self.size(b)
            case _:
                raise LoweringError(
                    f"{self.function.name}: the extent {extent} cannot be computed before the "
                    "function runs; expected +, -, *, //, %, min and max of the sizes of arguments"
                )

    def _first_shape(self, buffer: Buffer) -> tuple[int, ...]:
        """Return a shape that means nothing where it depends on sizes."""
        return tuple([extent if isinstance(extent, int) else 1 for extent in buffer.shape])


def first_blocks(kernel: LoweredKernel) -> tuple[int, int, int]:
    """Return the blocks of a launch; 1, which means nothing, where they depend on sizes."""
    x, y, z = (extent if isinstance(extent, int) else 1 for extent in kernel.grid)
    return x, y, z
