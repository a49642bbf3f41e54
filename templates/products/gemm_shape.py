"""Shapes of products of matrices, their arguments and numpy references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from autotune import arg
from autotune.errors import TemplateError
from autotune.kernel import Argument

from ..common import Array, defines, widest
from ..epilogue import Epilogue

OWNER = "gemm"
# Kernels have indices of rows and columns, and of tiles out of bounds, in 32 bits.
LARGEST = 2**30
# What a kernel gets as 16-bit floats.
HALVES = ("float16", "bfloat16")
# Arrays of float32, multiplied on tensor cores after rounding to 11 bits: only where asked for.
TF32 = "tf32"
# Results up to which threads that add partial sums have one each.
FEW_RESULTS = 2**17


def stored(dtype: str) -> str:
    """Return the type of arrays of a type of products."""
    return "float32" if dtype == TF32 else dtype


def as_tf32(x: Array) -> Array:
    """Return floats rounded as TF32 has them, by sums that bounds of errors can follow.

    Dekker, "A floating-point technique for extending the available precision", 1971; float64 keeps
    more bits.
    """
    wide = x * x.dtype.type(2**13 + 1)
    shorter: Array = wide - (wide - x)
    return shorter


class Product(Protocol):
    """What families of kernels need to know of products: `Gemm`, or a convolution as one."""

    @property
    def m(self) -> int:
        """Rows of c."""

    @property
    def n(self) -> int:
        """Columns of c."""

    @property
    def k(self) -> int:
        """How many products each sum has."""

    @property
    def batch(self) -> int:
        """How many pairs of matrices there are."""

    @property
    def dtype(self) -> str:
        """Type of products: that of a and b, or `TF32`."""

    @property
    def transpose_a(self) -> bool:
        """Whether a is stored as [k, m]."""

    @property
    def transpose_b(self) -> bool:
        """Whether b is stored as [n, k]."""

    @property
    def epilogue(self) -> Epilogue:
        """The epilogue; its channels are the columns of c."""

    @property
    def gathers(self) -> bool:
        """Whether a is the im2col matrix of a convolution, which is gathered (implicit GEMM)."""

    @property
    def b_apart(self) -> bool:
        """Whether neighbours along a row of b lie apart in memory (`conv2d_product`)."""

    @property
    def a_run(self) -> int:
        """Elements of a row of a in memory: copies start at its multiples."""

    @property
    def b_run(self) -> int:
        """The same of b."""

    def arguments(self) -> list[Argument]:
        """Return the arguments of the function."""

    def operands(self) -> dict[str, int | str]:
        """Return what ``operands.h`` is parameterised by."""

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out."""


def added_together(results: int, *extents: int) -> int:
    """Return how many neighbours a thread adds partial sums of: one where there are few results.

    Args:
        results: how many there are.
        extents: those that vectors divide.
    """
    return widest(*extents) if results > FEW_RESULTS else 1


def unaligned_rows(columns: int) -> float:
    """Return how much longer rows of floats take to be written than aligned ones, in parts.

    Rows that are no multiple of 32 bytes share sectors, and odd ones are no pairs of floats.
    """
    return 0.7 * (columns % 8 > 0) + 0.8 * (columns % 2)


def first_names(shape: Product) -> list[str]:
    """Return the arguments of kernels before the result: a, b, and those of the epilogue."""
    a, b = (each.name for each in shape.arguments()[:2])
    return [a, b, *(shape.epilogue.names(a) if shape.epilogue != Epilogue() else [])]


def result_name(shape: Product) -> str:
    """Return the name of the result."""
    return shape.arguments()[-1].name


@dataclass(frozen=True)
class Gemm:
    """``batch`` products c[m, n] = a[m, k] b[k, n], and an epilogue.

    Attributes:
        transpose_a, transpose_b: whether a is stored as [k, m], b as [n, k].
        shared: ``"a"`` or ``"b"``, where one matrix serves the whole batch; else ``""``.
        epilogue: its channels are the columns of c.
        by_rows: whether they are its rows instead, as where filters are the left operand; such
            kernels are those of `gemm_bf16x3_fused` alone.
        b_row: elements from one row of b to the next, where zeros are behind its k; else 0.
    """

    m: int
    n: int
    k: int
    dtype: str = "float32"
    batch: int = 1
    transpose_a: bool = False
    transpose_b: bool = False
    shared: str = ""
    epilogue: Epilogue = field(default_factory=Epilogue)
    by_rows: bool = False
    b_row: int = 0

    def __post_init__(self) -> None:
        if min(self.m, self.n, self.k, self.batch) < 1:
            raise TemplateError(f"{OWNER}: extents must be at least 1, got {self}")
        if max(self.m, self.n, self.k, self.batch) > LARGEST:
            raise TemplateError(f"{OWNER}: kernels take extents up to {LARGEST}, got {self}")
        if self.shared not in ("", "a", "b"):
            raise TemplateError(f"{OWNER}: shared must be '', 'a' or 'b', got {self.shared!r}")
        if self.dtype == "int8" and self.epilogue != Epilogue():
            raise TemplateError(f"{OWNER}: products of int8 have no epilogue, got {self.epilogue}")
        if self.b_row:
            self._check_b_row()

    def _check_b_row(self) -> None:
        """Raise unless rows of b may have zeros behind them."""
        alone = self.batch == 1 and self.transpose_b and self.dtype in HALVES
        if not alone:
            raise TemplateError(
                f"{OWNER}: b_row is for one b of 16-bit floats stored as [n, k], got {self}"
            )
        if self.b_row % 8 or not self.k <= self.b_row <= LARGEST:
            raise TemplateError(
                f"{OWNER}: b_row must be a multiple of 8 from k = {self.k} to {LARGEST}, got "
                f"{self.b_row}; pad rows of b with zeros"
            )

    @property
    def gathers(self) -> bool:
        """Both operands are matrices."""
        return False

    @property
    def b_apart(self) -> bool:
        """Whether neighbours along a row of b lie apart in memory (`conv2d_product`)."""
        return False

    @property
    def flop(self) -> int:
        """Multiplications and additions."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Bytes that must move at least once."""
        return sum(a.bytes for a in self.arguments())

    @property
    def result_dtype(self) -> str:
        """Type of the elements of c."""
        return "int32" if self.dtype == "int8" else stored(self.dtype)

    @property
    def a_run(self) -> int:
        """Elements of a row of a in memory: copies start at its multiples."""
        return self.m if self.transpose_a else self.k

    @property
    def b_run(self) -> int:
        """The same of b."""
        return (self.b_row or self.k) if self.transpose_b else self.n

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Shapes of a, b and c as they are stored."""
        batch = () if self.batch == 1 else (self.batch,)
        a = (self.k, self.m) if self.transpose_a else (self.m, self.k)
        b = (self.n, self.b_run) if self.transpose_b else (self.k, self.n)
        several = [() if name == self.shared else batch for name in "ab"]
        return (*several[0], *a), (*several[1], *b), (*batch, self.m, self.n)

    def arguments(self) -> list[Argument]:
        """Return a, b, those of bias, residual, scale and shift that are there, and c."""
        (a, b, c), kind = self.shapes, stored(self.dtype)
        return [
            arg("a", a, kind),
            arg("b", b, kind),
            *self.epilogue.arguments(self.m if self.by_rows else self.n, c, kind),
            arg("c", c, self.result_dtype, role="out"),
        ]

    def operands(self) -> dict[str, int | str]:
        """Return what ``operands.h`` is parameterised by."""
        # Kernels count pairs of 8-bit integers.
        item = 2 if self.dtype == "int8" else 1
        of_a, of_b = (0 if name == self.shared else 1 for name in "ab")
        a_stride, b_stride = of_a * self.m * self.k // item, of_b * self.k * self.n // item
        return {
            **defines(
                batch=self.batch, transpose_a=self.transpose_a, transpose_b=self.transpose_b,
                a_stride=a_stride, b_stride=b_stride, conv=0,
                follows=self.epilogue != Epilogue(),
            ),
            **defines(**self.epilogue.defines()),
            **self.epilogue.texts(self.dtype),
            **({"BY_ROWS": 1} if self.by_rows else {}),
        }  # fmt: skip

    def reference(self) -> Callable[..., Array]:
        """Return numpy in, numpy out; 16-bit floats are summed in float32, int8 in int32."""
        if self.b_row:
            plain, k = replace(self, b_row=0).reference(), self.k
            return lambda a, b, *others: plain(a, b[:, :k], *others)

        def product(a: Array, b: Array, *others: Array) -> Array:
            # Sums of int8 are exact in float64, for which there are fast products.
            kept = {"float32": a.dtype, TF32: a.dtype, "int8": np.dtype(np.float64)}
            wide = kept.get(self.dtype)
            left, right = (
                x.astype(wide or np.promote_types(np.float32, _known(x))) for x in (a, b)
            )
            if self.dtype == TF32:
                left, right = as_tf32(left), as_tf32(right)
            left = np.swapaxes(left, -1, -2) if self.transpose_a else left
            right = np.swapaxes(right, -1, -2) if self.transpose_b else right
            sums: Array = left @ right
            operands = tuple(x.astype(sums.dtype) for x in others)
            if self.dtype == "int8":
                return sums.astype(np.int64).astype(np.int32)
            channels = sums.ndim - (2 if self.by_rows else 1)
            return self.epilogue.apply(sums, operands, channels).astype(a.dtype)

        return product


def _known(x: Array) -> np.dtype[np.generic]:
    """Return a type that numpy promotes: bfloat16 is none of its own."""
    return x.dtype if x.dtype.kind == "f" else np.dtype(np.float16)
