"""The binary operators, and the constant folding of each."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import ClassVar

from autotune.errors import ExpressionError
from autotune.ir.base import BinaryOp, Call, Expr, Imm, IntImm, const, match_types
from autotune.ir.dtype import bool_like, is_float
from autotune.ir.structure import same


class Add(BinaryOp):
    """``a + b``."""

    __slots__ = ()
    symbol = "+"
    counts_bools = True

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr:
        """Fold constants and ``x + 0``."""
        if isinstance(b, Imm):
            if b.value == 0:
                return a
            if isinstance(a, Imm):
                return const(a.value + b.value, a.dtype)
        elif isinstance(a, Imm) and a.value == 0:
            return b
        return Add(a, b)


class Sub(BinaryOp):
    """``a - b``."""

    __slots__ = ()
    symbol = "-"
    counts_bools = True

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr:
        """Fold constants, ``x - 0``, and ``x - x`` of integers."""
        if isinstance(b, Imm):
            if b.value == 0:
                return a
            if isinstance(a, Imm):
                return const(a.value - b.value, a.dtype)
        elif a is b and not is_float(a.dtype):
            return const(0, a.dtype)
        return Sub(a, b)


class Mul(BinaryOp):
    """``a * b``."""

    __slots__ = ()
    symbol = "*"
    counts_bools = True

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr:
        """Fold constants, ``x * 1``, and ``x * 0`` of integers (a float may be NaN)."""
        if isinstance(b, Imm):
            if isinstance(a, Imm):
                return const(a.value * b.value, a.dtype)
            if b.value == 1:
                return a
            return b if b.value == 0 and isinstance(b, IntImm) else Mul(a, b)
        if isinstance(a, Imm):
            if a.value == 1:
                return b
            return a if a.value == 0 and isinstance(a, IntImm) else Mul(a, b)
        return Mul(a, b)


class Div(BinaryOp):
    """``a / b`` of floating-point numbers."""

    __slots__ = ()
    symbol = "/"

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr:
        """Fold constants and ``x / 1``."""
        if isinstance(b, Imm):
            if b.value == 1:
                return a
            if isinstance(a, Imm) and b.value != 0:
                return const(a.value / b.value, a.dtype)
        return Div(a, b)

    @classmethod
    def of(cls, a: object, b: object) -> Expr:
        """Divide floats; raise for integers, naming the integer divisions."""
        pair = match_types(a, b)
        if pair and not is_float(pair[0].dtype):
            if _as_c:
                warnings.warn(
                    f"({pair[0]}) / ({pair[1]}): a division of integers, taken for te.truncdiv as "
                    "in TVM up to 0.5, where later versions raise",
                    stacklevel=3,
                )
                return TruncDiv.fold(*pair)
            raise ExpressionError(
                f"({pair[0]}) / ({pair[1]}): division of integers is ambiguous; use te.floordiv "
                "(//), te.truncdiv or te.indexdiv, or cast an operand to a float"
            )
        return cls.fold(*pair) if pair else NotImplemented


# Whether ``/`` of integers is C's division; see `divide_integers_as_c`.
_as_c = False


def divide_integers_as_c() -> None:
    """Let ``/`` of integers be C's division in this process, as in TVM up to 0.5.

    Called where a whole script of TVM is run; for others it stays an error.
    """
    global _as_c
    _as_c = True


class IntDivision(BinaryOp):
    """Division or remainder of integers: what they have in common is how constants fold.

    ``of_ints`` is the operator's value for two Python ints.
    """

    __slots__ = ()
    of_ints: ClassVar[Callable[[int, int], int]]
    is_remainder: ClassVar[bool] = False

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr:
        """Fold constants and division by 1; refuse a division by the constant zero."""
        if not isinstance(b, IntImm):
            return cls(a, b)
        if b.value == 0:
            raise ExpressionError(f"({a}) {cls.symbol} 0: division by zero")
        if isinstance(a, IntImm):
            return const(cls.of_ints(a.value, b.value), a.dtype)
        if b.value == 1:
            return const(0, a.dtype) if cls.is_remainder else a
        return cls(a, b)


class FloorDiv(IntDivision):
    """The quotient of integers rounded towards minus infinity."""

    __slots__ = ()
    symbol = "//"
    of_ints = operator.floordiv

    @classmethod
    def of(cls, a: object, b: object) -> Expr:
        """Divide and round towards minus infinity, floats too."""
        pair = match_types(a, b)
        if pair and is_float(pair[0].dtype):
            return Call("floor", (Div.fold(*pair),))
        return cls.fold(*pair) if pair else NotImplemented


class FloorMod(IntDivision):
    """The remainder that belongs to `FloorDiv`; it has the sign of ``b``."""

    __slots__ = ()
    symbol = "%"
    is_remainder = True
    of_ints = operator.mod

    @classmethod
    def of(cls, a: object, b: object) -> Expr:
        """Return the remainder of `FloorDiv.of`."""
        pair = match_types(a, b)
        if pair and is_float(pair[0].dtype):
            return Sub.of(pair[0], FloorDiv.of(*pair) * pair[1])
        return cls.fold(*pair) if pair else NotImplemented


def _truncated_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _truncated_remainder(a: int, b: int) -> int:
    return a - b * _truncated_quotient(a, b)


class TruncDiv(IntDivision):
    """The quotient of integers rounded towards zero, as C does."""

    __slots__ = ()
    symbol = "truncdiv"
    of_ints = _truncated_quotient


class TruncMod(IntDivision):
    """The remainder that belongs to `TruncDiv`; it has the sign of ``a``."""

    __slots__ = ()
    symbol = "truncmod"
    is_remainder = True
    of_ints = _truncated_remainder


class Extremum(BinaryOp):
    """One of two values; of two numbers ``a`` if ``prefers(a, b)``, else ``b``; of a NaN that."""

    __slots__ = ()
    prefers: ClassVar[Callable[[float, float], bool]]

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr:
        """Fold constants and equal operands."""
        if isinstance(a, Imm) and isinstance(b, Imm):
            return a if a.value != a.value or cls.prefers(a.value, b.value) else b
        return a if a is b else cls(a, b)


class Min(Extremum):
    """The smaller of two values."""

    __slots__ = ()
    symbol = "min"
    prefers = operator.le


class Max(Extremum):
    """The larger of two values."""

    __slots__ = ()
    symbol = "max"
    prefers = operator.ge


class CompareOp(BinaryOp):
    """A comparison of two operands of one dtype; its own dtype is bool.

    ``of_numbers`` is its value for two Python numbers.
    """

    __slots__ = ()
    of_numbers: ClassVar[Callable[[float, float], bool]]

    def __init__(self, a: Expr, b: Expr) -> None:
        self.a = a
        self.b = b
        self.dtype = bool_like(a.dtype)

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr:
        """Fold constants."""
        if isinstance(a, Imm) and isinstance(b, Imm):
            return const(cls.of_numbers(a.value, b.value), "bool")
        return cls(a, b)


class EQ(CompareOp):
    """``a == b``; in a Python ``if`` it is true when both are structurally the same."""

    __slots__ = ()
    symbol = "=="
    of_numbers = operator.eq

    def __bool__(self) -> bool:
        return same(self.a, self.b)


class NE(CompareOp):
    """``a != b``; in a Python ``if`` it is true unless both are structurally the same."""

    __slots__ = ()
    symbol = "!="
    of_numbers = operator.ne

    def __bool__(self) -> bool:
        return not same(self.a, self.b)


class LT(CompareOp):
    """``a < b``."""

    __slots__ = ()
    symbol = "<"
    of_numbers = operator.lt


class LE(CompareOp):
    """``a <= b``."""

    __slots__ = ()
    symbol = "<="
    of_numbers = operator.le


class GT(CompareOp):
    """``a > b``."""

    __slots__ = ()
    symbol = ">"
    of_numbers = operator.gt


class GE(CompareOp):
    """``a >= b``."""

    __slots__ = ()
    symbol = ">="
    of_numbers = operator.ge


class LogicalOp(BinaryOp):
    """``and`` or ``or`` of two bools; ``absorbs`` is the constant that decides it alone."""

    __slots__ = ()
    absorbs: ClassVar[bool]

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr:
        """Fold where one side is a constant."""
        if isinstance(a, Imm):
            return a if bool(a.value) is cls.absorbs else b
        if isinstance(b, Imm):
            return b if bool(b.value) is cls.absorbs else a
        return cls(a, b)


class And(LogicalOp):
    """``a and b``; ``b`` is evaluated only if ``a`` is true."""

    __slots__ = ()
    symbol = "&&"
    absorbs = False


class Or(LogicalOp):
    """``a or b``; ``b`` is evaluated only if ``a`` is false."""

    __slots__ = ()
    symbol = "||"
    absorbs = True
