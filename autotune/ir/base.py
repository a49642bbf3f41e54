"""The basis of all expressions: base classes, variables, constants, casts, calls.

Nodes are immutable by convention: slots are set once, by the constructor, and never after; the
cost of enforcing it would be paid millions of times in one tuning run. A raw constructor, such
as ``Add(a, b)``, makes just that node of two operands of one dtype. The Python operators, and the
``fold`` of a class, simplify what is trivial (``x + 0``, ``2 * 3``); operators promote dtypes too.

Equality: nodes hash by identity. ``a == b`` builds an `EQ` node, whose truth value in a Python
``if`` is structural equality. Passes compare by ``is`` or with `autotune.ir.same`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, ClassVar, SupportsFloat, Union

from autotune.errors import ExpressionError
from autotune.ir import foreign_calls as foreign
from autotune.ir.dtype import (
    check_dtype,
    int_range,
    is_float,
    is_int,
    lanes_of,
    promote,
    with_lanes,
)
from autotune.ir.node import Below, Node, nothing, only

ExprLike = Union["Operand", int, float]


class Operand:
    """The Python operators: what an expression and an iteration variable have in common."""

    __slots__ = ()
    __array_ufunc__ = foreign.numpy_of_expressions
    __abs__, __pow__, __round__ = foreign.no_abs, foreign.no_power, foreign.no_round

    def __add__(self, other: ExprLike) -> Expr:
        return OPERATORS["+"].of(self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return OPERATORS["+"].of(other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return OPERATORS["-"].of(self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return OPERATORS["-"].of(other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return OPERATORS["*"].of(self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return OPERATORS["*"].of(other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return OPERATORS["/"].of(self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return OPERATORS["/"].of(other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return OPERATORS["//"].of(self, other)

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return OPERATORS["//"].of(other, self)

    def __mod__(self, other: ExprLike) -> Expr:
        return OPERATORS["%"].of(self, other)

    def __rmod__(self, other: ExprLike) -> Expr:
        return OPERATORS["%"].of(other, self)

    def __neg__(self) -> Expr:
        return OPERATORS["*"].of(self, -1)

    def __eq__(self, other: object) -> Any:
        return OPERATORS["=="].of(self, other)

    def __ne__(self, other: object) -> Any:
        return OPERATORS["!="].of(self, other)

    def __lt__(self, other: ExprLike) -> Expr:
        return OPERATORS["<"].of(self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return OPERATORS["<="].of(self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return OPERATORS[">"].of(self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return OPERATORS[">="].of(self, other)

    __hash__ = object.__hash__

    equal = __eq__

    def __and__(self, other: ExprLike) -> Expr:
        return bitwise("&&", "bitwise_and", self, other)

    def __or__(self, other: ExprLike) -> Expr:
        return bitwise("||", "bitwise_or", self, other)

    def __xor__(self, other: ExprLike) -> Expr:
        return bitwise("!=", "bitwise_xor", self, other)

    def __lshift__(self, other: ExprLike) -> Expr:
        return bitwise("", "shift_left", self, other)

    def __rshift__(self, other: ExprLike) -> Expr:
        return bitwise("", "shift_right", self, other)

    def __invert__(self) -> Expr:
        value = as_expr(self)
        return Not.fold(value) if value.dtype == "bool" else Call("bitwise_not", (value,))

    def to_expr(self) -> Expr:
        """Return the operand as an expression."""
        raise NotImplementedError

    def astype(self, dtype: str) -> Expr:
        """Convert the value to ``dtype``; a constant is converted at once."""
        return cast(self, dtype)


class Expr(Node, Operand):
    """A typed expression; ``dtype`` is the dtype of its value."""

    __slots__ = ("dtype",)
    dtype: str
    __float__, __int__ = foreign.no_float, foreign.no_int

    def __bool__(self) -> bool:
        raise ExpressionError(
            f"{textwrap.shorten(str(self), 80)} has no truth value while the program is being "
            "built; use te.if_then_else, te.all, te.any, te.max or te.min instead of if, and, or, "
            "max, min"
        )

    def to_expr(self) -> Expr:
        """Return the expression itself."""
        return self

    def __str__(self) -> str:
        return PRINTER[0](self)

    __repr__ = __str__


class Var(Expr):
    """A variable; two of one name are different. ``axis`` is what it iterates over, if any."""

    __slots__ = ("axis", "name")
    __match_args__ = ("name", "dtype", "axis")
    below: ClassVar[Below] = nothing

    def __init__(self, name: str, dtype: str = "int32", axis: str = "") -> None:
        self.name = name
        self.dtype = dtype
        self.axis = axis


class Imm(Expr):
    """A constant: `IntImm` or `FloatImm`; TVM's order, ``IntImm(dtype, value)``, is taken too."""

    __slots__ = ("value",)
    __match_args__ = ("value", "dtype")
    below: ClassVar[Below] = nothing
    default: ClassVar[str] = "int32"
    value: float

    def __init__(self, value: Any, dtype: Any = "") -> None:
        if type(value) is str:
            value, dtype = dtype, value
        self.value = value
        self.dtype = dtype or self.default

    def __bool__(self) -> bool:
        return bool(self.value != 0)

    def __float__(self) -> float:
        return float(self.value)


class IntImm(Imm):
    """An integer or bool constant."""

    __slots__ = ()
    value: int

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


class FloatImm(Imm):
    """A floating-point constant."""

    __slots__ = ()
    default: ClassVar[str] = "float32"
    value: float


class Cast(Expr):
    """A value converted to another dtype."""

    __slots__ = ("value",)
    __match_args__ = ("value", "dtype")
    below: ClassVar[Below] = only("value")

    def __init__(self, value: Expr, dtype: str) -> None:
        self.value = value
        self.dtype = dtype


class Call(Expr):
    """A pure intrinsic function applied to arguments; its dtype is the first one's by default."""

    __slots__ = ("args", "name")
    __match_args__ = ("name", "args", "dtype")
    below: ClassVar[Below] = attrgetter("args")

    def __init__(self, name: str, args: tuple[Expr, ...], dtype: str = "") -> None:
        self.name = name
        self.args = args
        self.dtype = dtype or args[0].dtype


class Not(Expr):
    """Logical negation."""

    __slots__ = ("a",)
    __match_args__ = ("a",)

    def __init__(self, a: Expr) -> None:
        self.a = a
        self.dtype = a.dtype

    @staticmethod
    def fold(a: Expr) -> Expr:
        """Fold a constant and a double negation."""
        if isinstance(a, IntImm):
            return const(a.value == 0, "bool")
        return a.a if isinstance(a, Not) else Not(a)


class BinaryOp(Expr):
    """An operator of two operands of one dtype; a subclass enters itself by its ``symbol``."""

    __slots__ = ("a", "b")
    __match_args__ = ("a", "b")
    below: ClassVar[Below] = attrgetter("a", "b")
    symbol: ClassVar[str] = ""
    # Whether bools become int32 first, so that True + True is 2.
    counts_bools: ClassVar[bool] = False
    a: Expr
    b: Expr

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.symbol:
            OPERATORS[cls.symbol] = cls

    def __init__(self, a: Expr, b: Expr) -> None:
        self.a = a
        self.b = b
        self.dtype = a.dtype

    @classmethod
    def fold(cls, a: Expr, b: Expr) -> Expr:
        """Return ``cls(a, b)``, or what it trivially is; both operands have one dtype."""
        return cls(a, b)

    @classmethod
    def of(cls, a: object, b: object) -> Expr:
        """Apply the operator as Python does: match dtypes, fold; NotImplemented for a stranger."""
        if isinstance(a, Expr) and isinstance(b, Expr) and a.dtype == b.dtype != "bool":
            return cls.fold(a, b)
        pair = match_types(a, b)
        if pair and cls.counts_bools and pair[0].dtype == "bool":
            pair = cast(pair[0], "int32"), cast(pair[1], "int32")
        return cls.fold(*pair) if pair else NotImplemented


# symbol -> class, filled by the subclasses of `BinaryOp` themselves.
OPERATORS: dict[str, type[BinaryOp]] = {}
# How a node prints itself; `autotune.ir.printer` puts its function here.
PRINTER: list[Callable[[Expr], str]] = [object.__repr__]
_SMALL = {n: IntImm(n) for n in range(-64, 1025)}


def const(value: SupportsFloat, dtype: str | None = None) -> Expr:
    """Make a constant; without ``dtype`` an int is int32, a float float32, a bool bool.

    An integer outside the range of ``dtype`` wraps around, as C's unsigned arithmetic does.
    """
    if type(value) is int and (dtype == "int32" or dtype is None):
        small = _SMALL.get(value)
        if small is not None:
            return small
    dtype = _number_dtype(value, "bool") if dtype is None else check_dtype(dtype)
    if is_float(dtype):
        return FloatImm(float(value), dtype)
    if dtype == "bool":
        return IntImm(int(bool(value)), dtype)
    low, high = int_range(dtype)
    whole = int(value) if isinstance(value, Integral) else int(float(value))
    return IntImm(whole if low <= whole <= high else (whole - low) % (high - low + 1) + low, dtype)


def nearest_const(value: float, dtype: str) -> Expr:
    """Make a constant; a number beyond the range of ``dtype`` becomes the end of that range."""
    if is_float(dtype) or dtype == "bool":
        return const(value, dtype)
    low, high = int_range(dtype)
    return const(min(max(value, low), high), dtype)


def as_expr(value: object, dtype: str | None = None) -> Expr:
    """Return an expression, an axis or a number (which gets ``dtype``) as an expression."""
    if isinstance(value, Operand):
        return value.to_expr()
    if isinstance(value, Real):
        return const(value, dtype)
    raise ExpressionError(f"expected an expression, an axis or a number, got {value!r}")


def cast(value: object, dtype: str) -> Expr:
    """Convert ``value`` to ``dtype``; nothing is built if it has it already."""
    expr = as_expr(value)
    if expr.dtype == dtype:
        return expr
    dtype = check_dtype(dtype)
    if isinstance(expr, Imm):
        return const(expr.value, dtype)
    return Cast(expr, dtype)


def match_types(a: object, b: object) -> tuple[Expr, Expr] | None:
    """Convert two operands to one dtype; None if one of them is nothing we know.

    A Python number takes the dtype of the other operand, except that a float makes an integer
    operand float32. Two expressions meet in the dtype that `promote` says.
    """
    x: Expr | None
    y: Expr | None
    if isinstance(a, Operand):
        x = a.to_expr()
        y = b.to_expr() if isinstance(b, Operand) else _number_like(b, x.dtype)
    elif isinstance(b, Operand):
        y = b.to_expr()
        x = _number_like(a, y.dtype)
    else:
        return None
    if x is None or y is None:
        return None
    if x.dtype == y.dtype:
        return x, y
    dtype = promote(x.dtype, y.dtype)
    return cast(x, dtype), cast(y, dtype)


def _number_like(number: object, dtype: str) -> Expr | None:
    """Return a number as a constant that suits an operand of ``dtype``; None for no number."""
    if type(number) is int and dtype == "int32":
        return const(number, dtype)
    return const(number, _number_dtype(number, dtype)) if isinstance(number, Real) else None


def _number_dtype(number: object, other: str) -> str:
    if is_float(other):
        return other
    if is_int(other) and isinstance(number, Integral):
        low, high = int_range(other)
        # To TVM all integers of Python are int32: so are those that a narrow dtype does not hold.
        fits = low <= int(number) <= high or high >= 2**31 - 1
        return other if fits else with_lanes("int32", lanes_of(other))
    if isinstance(number, bool):
        return "bool"
    return "int32" if isinstance(number, Integral) else "float32"


def bitwise(logical: str, name: str, a: object, b: object) -> Expr:
    """Build a bitwise call; of two bools it is the logical operator of that symbol."""
    pair = match_types(a, b)
    if pair and is_float(pair[0].dtype):
        raise ExpressionError(f"{name}: expected integers, got {pair[0].dtype}")
    if pair and pair[0].dtype == "bool" and logical:
        return OPERATORS[logical].fold(*pair)
    return Call(name, pair) if pair else NotImplemented
