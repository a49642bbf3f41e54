"""How layers of 8-bit integers end, and the instructions that their CPU kernels need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune import Target
from autotune.errors import TemplateError
from autotune.graph import Operator, ops
from autotune.runtime import cpu_instructions

from . import common
from .common import Array

DATA, RESULTS = ("int8", "uint8"), ("int8", "uint8", "float32")
# Limits of a result that has none.
MOST = float(np.finfo("float32").max)
# Products of bytes whose sum fits in 32 bits, whatever the bytes are.
MOST_TERMS = (2**31 - 1) // (255 * 128)


@dataclass(frozen=True)
class Residual:
    """What is added to sums once they are rounded to whole steps.

    Attributes:
        dtype, zero: of what is added: the type, and the number that stands for 0.
        scales: of the sums and of what is added, in steps of the result.
        low, high: limits of the sums, in their steps.
    """

    dtype: str
    zero: int
    scales: tuple[float, float]
    low: float
    high: float

    def __post_init__(self) -> None:
        if self.dtype not in DATA or not _fits(self.zero, self.dtype):
            raise TemplateError(
                f"quantised layers: a residual must be {' or '.join(DATA)}, and its zero point "
                f"one of these, got {self.dtype!r} and {self.zero}"
            )
        if not -MOST <= self.low <= self.high <= MOST:
            raise TemplateError(
                f"quantised layers: limits of sums must be finite and in order, got {self.low} "
                f"and {self.high}"
            )

    def added(self, sums: Array, other: Array) -> Array:
        """Return sums that are rounded, and what is added, in steps of the result."""
        steps = np.rint(np.clip(sums, np.float32(self.low), np.float32(self.high)))
        of_sums, of_other = (np.float32(scale) for scale in self.scales)
        return fused(steps, of_sums, (other.astype("float32") - self.zero) * of_other)

    def defines(self) -> dict[str, int | str]:
        """Return the definitions that kernels begin with."""
        numbers = {
            "SUM_LOW": self.low, "SUM_HIGH": self.high,
            "SUM_SCALE": self.scales[0], "RESIDUAL_SCALE": self.scales[1],
        }  # fmt: skip
        flags = common.defines(
            residual=1, residual_signed=int(self.dtype == "int8"), residual_zero=self.zero
        )
        return {**flags, **{name: f"({float(n)!r}f)" for name, n in numbers.items()}}


@dataclass(frozen=True)
class Requantisation:
    """``sum((x - zero) * w) * scale + shift`` within limits, and rounded if it is a whole number.

    Attributes:
        dtype, zero: of the data: the type, and the number that stands for 0.
        out_dtype, out_zero: of the result.
        low, high: limits, before the zero point of the result is added; whole numbers have those
            of their type besides.
        residual: what is added to the sums, once these are rounded; limits are those of the total.
    """

    dtype: str = "int8"
    zero: int = 0
    out_dtype: str = "float32"
    out_zero: int = 0
    low: float = -MOST
    high: float = MOST
    residual: Residual | None = None

    def __post_init__(self) -> None:
        for name, kind, known in (
            ("dtype", self.dtype, DATA), ("out_dtype", self.out_dtype, RESULTS),
        ):  # fmt: skip
            if kind not in known:
                raise TemplateError(
                    f"quantised layers: {name} must be one of {', '.join(known)}, got {kind!r}"
                )
        for name, kind, number in (
            ("zero", self.dtype, self.zero), ("out_zero", self.out_dtype, self.out_zero),
        ):  # fmt: skip
            fits = number == 0 if kind == "float32" else _fits(number, kind)
            if not fits:
                raise TemplateError(f"quantised layers: {name} must be a {kind}, got {number}")
        if not -MOST <= self.low <= self.high <= MOST:
            raise TemplateError(
                f"quantised layers: low and high must be finite and in order, got {self.low} and "
                f"{self.high}"
            )

    @staticmethod
    def of(op: Operator, dtype: str) -> Requantisation:
        """Return that of an operator of a network."""
        assert isinstance(op, ops.QuantisedConv2d | ops.QuantisedDense)
        return Requantisation(dtype, op.zero, op.out_dtype, op.out_zero, *_finite(*op.limits))

    @property
    def limits(self) -> tuple[float, float]:
        """Least and greatest number before the zero point is added."""
        if self.out_dtype == "float32":
            return self.low, self.high
        info = np.iinfo(self.out_dtype)
        least, most = float(info.min - self.out_zero), float(info.max - self.out_zero)
        return min(max(self.low, least), most), max(min(self.high, most), least)

    @property
    def args(self) -> tuple[Any, ...]:
        """The attributes in order, as templates take them."""
        low, high = float(self.low), float(self.high)
        return self.dtype, self.zero, self.out_dtype, self.out_zero, low, high

    @property
    def offset(self) -> int:
        """What is added to the data so that they have no sign."""
        return 128 if self.dtype == "int8" else 0

    def finished(
        self, products: Array, sums: Array, scale: Array, shift: Array, *others: Array
    ) -> Array:
        """Return the results of sums of products of the data without a sign.

        Numbers are those of kernels to the last bit, so that halves are the same ones.
        """
        whole = products - (self.zero + self.offset) * sums
        value = fused(whole.astype("float32"), scale, shift)
        if self.residual is not None:
            value = self.residual.added(value, *others)
        low, high = self.limits
        value = np.clip(value, np.float32(low), np.float32(high))
        if self.out_dtype != "float32":
            value = (np.rint(value) + self.out_zero).astype(self.out_dtype)
        result: Array = value
        return result

    def defines(self) -> dict[str, int | str]:
        """Return the definitions that kernels begin with."""
        flags = common.defines(
            data_signed=int(self.dtype == "int8"), data_zero=self.zero,
            out_float=int(self.out_dtype == "float32"), out_signed=int(self.out_dtype == "int8"),
            out_zero=self.out_zero,
        )  # fmt: skip
        limits = dict(zip(("LOW", "HIGH"), self.limits, strict=True))
        more = self.residual.defines() if self.residual is not None else {}
        return {**flags, **{name: f"({float(n)!r}f)" for name, n in limits.items()}, **more}


def fused(left: Array, right: Array, added: Array) -> Array:
    """Return ``left * right + added`` of float32, rounded once.

    Products have all their bits in float64. Sums are rounded there and once more, which matters
    once in 2^29 sums.
    """
    result: Array = (left.astype("float64") * right + added).astype("float32")
    return result


def check_terms(owner: str, terms: int) -> None:
    """Refuse sums that 32 bits may not hold."""
    if terms > MOST_TERMS:
        raise TemplateError(
            f"{owner}: sums of 32 bits hold at most {MOST_TERMS} products of bytes, got {terms} "
            "for each result; multiply in float32"
        )


def _finite(low: float, high: float) -> tuple[float, float]:
    """Return limits that kernels can write as float32."""
    return min(max(low, -MOST), MOST), min(max(high, -MOST), MOST)


def _fits(number: int, dtype: str) -> bool:
    limits = np.iinfo(dtype)
    return int(limits.min) <= number <= int(limits.max)


def has_dots(target: Target) -> bool:
    """Return whether a CPU multiplies bytes and adds four products in one instruction."""
    return "AVX512VNNI" in cpu_instructions(target)


def has_tiles(target: Target) -> bool:
    """Return whether a CPU multiplies tiles of bytes (AMX)."""
    return "AMX_INT8" in cpu_instructions(target)


def has_mma(target: Target) -> bool:
    """Return whether tensor cores of a GPU multiply bytes 32 along K (sm_80 and later)."""
    digits = "".join(c for c in target.arch if c.isdigit())
    return target.emulate or int(digits or 0) >= 80
