"""Expressions as C statements that compute a value in double precision and a bound on its error.

Integers keep their dtype and wrap as theirs does; what follows from integers and inputs alone,
without a rounding, has no error, and a comparison of such values is certain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from autotune.errors import MeasureError
from autotune.ir import (
    Add,
    And,
    BinaryOp,
    Call,
    Cast,
    CompareOp,
    Conditional,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    ProducerLoad,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    is_float,
)
from autotune.ir.dtype import bits_of
from autotune.measure.check.bounded_text import C_TYPES
from autotune.measure.check.rounding import CUT_TO_TF32, FLUSHED, LARGEST, ULPS, unit
from autotune.runtime.arrays.array import numpy_dtype
from autotune.te.intrinsics import NEEDED
from autotune.te.math import TF32


@dataclass(frozen=True)
class Bounded:
    """A value in C, and a bound on how far a kernel's value may differ from it.

    Attributes:
        text: C text of the value: a variable or a constant.
        dtype: the dtype of the value in the kernel.
        error: C text of the bound: a variable or a constant; empty for an exact value.
        index: whether it consists of loop variables and constants, which never overflow.
    """

    text: str
    dtype: str
    error: str = ""
    index: bool = False

    @property
    def bound(self) -> str:
        """The error as an operand."""
        return self.error or "0.0"


# Bits of integers that a float holds without rounding.
_MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_INT_OPS = {
    Add: "+", Sub: "-", Mul: "*", TruncDiv: "/", TruncMod: "%", FloorDiv: "/", FloorMod: "%",
}  # fmt: skip
# Of these no index is so large that it wraps.
_INDEX_DTYPES = ("int32", "int64")
_RISING = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "tanh", "sigmoid", "sinh",
    "asin", "atan", "asinh", "acosh", "atanh", "erf", "rsqrt", "acos", "floor", "ceil", "trunc",
    "round", "nearbyint", "exp2_flushed",
)  # fmt: skip
_OTHER_NAMES = {"exp10": "pow(10.0, {})", "exp2_flushed": "exp2({})"}
_WHOLE = ("floor", "ceil", "trunc", "round", "nearbyint")
_TESTS = {
    "isnan": "{0} != {0}", "isinf": "fabs({0}) > DBL_MAX", "isfinite": "fabs({0}) <= DBL_MAX",
}  # fmt: skip
_BITWISE = {
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "shift_left": "<<",
    "shift_right": ">>",
}  # fmt: skip
# Bound of a function from its value {z}, its arguments {0}, {1} and their errors {2}, {3}.
_BOUNDS = {
    "sin": "fmin({2}, 2.0)",
    "cos": "fmin({2}, 2.0)",
    "abs": "{2}",
    "tan": "bound_tan({z}, {0}, {2})",
    "cosh": "bound_cosh({z}, {0}, {2})",
    "atan2": "bound_atan2({0}, {2}, {1}, {3})",
    "hypot": "({2} + {3})",
    "pow": "bound_pow({z}, {0}, {2}, {1}, {3})",
    "fmod": "bound_fmod({0}, {2}, {1}, {3})",
    "copysign": "({2} + (fabs({1}) <= {3} && {3} > 0 ? 2 * fabs({0}) : 0))",
}


class BoundedWriter:
    """Writes statements; equal expressions are written once in a block.

    Args:
        load: gives the C elements of a tensor's value and, where it has an error, of its bound,
            for the texts of its indices.
    """

    def __init__(self, load: Callable[[ProducerLoad, Sequence[str]], tuple[str, str]]) -> None:
        self.lines: list[str] = []
        self._load = load
        self._known: list[dict[Expr, Bounded]] = [{}]
        self._count = 0

    def bind(self, var: Var, value: Bounded) -> None:
        """Use this value for a variable from here on."""
        self._known[-1][var] = value

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write a block; what is computed in it is known in it only."""
        self.lines.append(head + " {")
        self._known.append({})
        yield
        self._known.pop()
        self.lines.append("}")

    def value(self, expr: Expr) -> Bounded:
        """Write what computes an expression and return where its value is."""
        for known in reversed(self._known):
            if expr in known:
                return known[expr]
        found = self._known[-1][expr] = self._made(expr)
        return found

    def fresh(self, ctype: str, text: str) -> str:
        """Write a variable with a value and return its name."""
        self._count += 1
        self.lines.append(f"{ctype} t{self._count} = {text};")
        return f"t{self._count}"

    def _new(self, dtype: str, text: str, error: str = "") -> Bounded:
        """Write a value and its bound."""
        if dtype == "bool":
            text = f"({text}) ? 1 : 0"
        value = self.fresh(C_TYPES[dtype], text)
        return Bounded(value, dtype, self.fresh("double", error) if error else "")

    def _round(self, dtype: str, text: str, error: str = "", units: float = 1.0) -> Bounded:
        """Write a value that is rounded to a float dtype; ``{z}`` in its error is the value."""
        value = self.fresh("double", text)
        roundoff = f"round_off({value}, {units * unit(dtype)!r}, {FLUSHED[dtype]!r})"
        # What is rounded off is always known.
        total = f"known({error.replace('{z}', value)} + {roundoff})" if error else roundoff
        return Bounded(value, dtype, self.fresh("double", total))

    def _made(self, expr: Expr) -> Bounded:
        match expr:
            case IntImm():
                return Bounded(_int_text(expr), expr.dtype, index=expr.dtype in _INDEX_DTYPES)
            case FloatImm():
                return _constant(expr)
            case Cast():
                return self._cast(self.value(expr.value), expr.dtype)
            case Call():
                return self._call(expr)
            case Conditional():
                return self._choice(expr)
            case ProducerLoad():
                return self._element(expr)
            case Not(a):
                one = self.value(a)
                return self._new("bool", f"!{one.text}", one.error)
            case BinaryOp():
                return self._binary(expr, self.value(expr.a), self.value(expr.b))
            case _:
                raise MeasureError(f"no reference for {type(expr).__name__} in {expr}")

    # -- operators ---------------------------------------------------------------------------

    def _binary(self, expr: BinaryOp, a: Bounded, b: Bounded) -> Bounded:
        if isinstance(expr, CompareOp):
            return self._comparison(expr.symbol, a, b)
        if isinstance(expr, And | Or):
            # One side that is certain may decide: false of "and", true of "or".
            sign = "!" if isinstance(expr, And) else ""
            sure = " || ".join(f"({sign}{one.text} && !({one.bound} > 0))" for one in (a, b))
            error = f"{sure} ? 0.0 : fmax({a.bound}, {b.bound})" if a.error or b.error else ""
            return self._new("bool", f"{a.text} {expr.symbol} {b.text}", error)
        if isinstance(expr, Min | Max):
            op = "<" if isinstance(expr, Min) else ">"
            error = f"fmax({a.bound}, {b.bound})" if a.error or b.error else ""
            text = f"{a.text} {op} {b.text} ? {a.text} : {b.text}"
            return self._new(expr.dtype, text, error)
        return self.arithmetic(type(expr), a, b)

    def arithmetic(self, kind: type[BinaryOp], a: Bounded, b: Bounded) -> Bounded:
        """Add, subtract, multiply or divide."""
        if not is_float(a.dtype):
            return self._integer(kind, a, b)
        if kind is Mul and "-1.0" in (a.text, b.text):
            other = b if a.text == "-1.0" else a
            return self._new(a.dtype, f"-{other.text}", other.error)
        texts = (a.text, b.text)
        errors = a.error or b.error
        if kind is Div:
            bound = f"bound_div({{z}}, {a.bound}, {b.text}, {b.bound})" if errors else ""
            return self._round(a.dtype, "{} / {}".format(*texts), bound, units=2.0)
        if kind is Mul:
            bound = f"bound_mul({a.text}, {a.bound}, {b.text}, {b.bound})" if errors else ""
            return self._round(a.dtype, "{} * {}".format(*texts), bound)
        bound = f"{a.bound} + {b.bound}" if errors else ""
        return self._round(a.dtype, f"{a.text} {'+' if kind is Add else '-'} {b.text}", bound)

    def _integer(self, kind: type[BinaryOp], a: Bounded, b: Bounded) -> Bounded:
        """Compute in the dtype itself; an uncertain operand leaves little to say."""
        if kind in (FloorDiv, FloorMod) and not a.dtype.startswith("uint"):
            name = "floor_div" if kind is FloorDiv else "floor_mod"
            text = f"{name}({a.text}, {b.text})"
        else:
            text = f"{a.text} {_INT_OPS[kind]} {b.text}"
        if a.index and b.index:
            return Bounded(self.fresh("int64_t", text), a.dtype, index=True)
        error = ""
        if a.error or b.error:
            sum_of = f"{a.bound} + {b.bound}"
            error = f"bound_mul({a.text}, {a.bound}, {b.text}, {b.bound})"
            if kind is not Mul:
                certain = sum_of if kind in (Add, Sub) else "INFINITY"
                error = f"{sum_of} > 0 ? {certain} : 0.0"
        return self._new(a.dtype, f"({C_TYPES[a.dtype]})({text})", error)

    def _comparison(self, symbol: str, a: Bounded, b: Bounded) -> Bounded:
        error = ""
        # Whether a value is itself tells a NaN, and rounding makes none.
        if (a.error or b.error) and a is not b:
            both = f"({a.bound} + {b.bound})"
            distance = f"fabs((double){a.text} - (double){b.text})"
            error = f"{both} > 0 && !({distance} > {both}) ? 1.0 : 0.0"
        return self._new("bool", f"{a.text} {symbol} {b.text}", error)

    def _choice(self, expr: Conditional) -> Bounded:
        """Compute the side that is taken; both, where the condition may be either."""
        cond = self.value(expr.cond)
        dtype = expr.dtype
        if cond.error and not isinstance(expr, IfThenElse):
            then, other = self.value(expr.then), self.value(expr.other)
            text = f"{cond.text} ? {then.text} : {other.text}"
            apart = f"fabs((double){then.text} - (double){other.text})"
            both = f"{apart} + fmax({then.bound}, {other.bound})"
            sure = f"{cond.text} ? {then.bound} : {other.bound}"
            return self._new(dtype, text, f"{cond.error} > 0 ? known({both}) : ({sure})")
        value, error = self.fresh(C_TYPES[dtype], "0"), self.fresh("double", "0")
        exact = not cond.error
        for head, side in ((f"if ({cond.text})", expr.then), ("else", expr.other)):
            with self.block(head):
                one = self.value(side)
                exact = exact and not one.error
                self.lines.append(f"{value} = {one.text};")
                if one.error:
                    self.lines.append(f"{error} = {one.error};")
        if cond.error:
            self.lines.append(f"if ({cond.error} > 0) {error} = INFINITY;")
        return Bounded(value, dtype, "" if exact else error)

    # -- loads, conversions, calls -------------------------------------------------------------

    def _element(self, expr: ProducerLoad) -> Bounded:
        indices = [self.value(i) for i in expr.indices]
        value, error = self._load(expr, [index.text for index in indices])
        doubtful = " + ".join(i.error for i in indices if i.error)
        if doubtful:
            error = f"{doubtful} > 0 ? INFINITY : {error or '0.0'}"
        ctype = C_TYPES[expr.dtype]
        return Bounded(
            self.fresh(ctype, value), expr.dtype, self.fresh("double", error) if error else ""
        )

    def _cast(self, one: Bounded, dtype: str) -> Bounded:
        if dtype == "bool":
            error = f"fabs((double){one.text}) <= {one.error} ? 1.0 : 0.0" if one.error else ""
            return self._new(dtype, one.text, error)
        if is_float(dtype):
            return self._to_float(one, dtype)
        if not is_float(one.dtype):
            text = f"({C_TYPES[dtype]}){one.text}"
            is_index = one.index and dtype in _INDEX_DTYPES
            return replace(self._new(dtype, text, one.error), index=is_index)
        error = ""
        if one.error:
            z, (low, high) = f"trunc({one.text})", _either_end(one)
            error = f"ends({z}, trunc({low}), trunc({high}))"
        return self._new(dtype, f"({C_TYPES[dtype]}){one.text}", error)

    def _to_float(self, one: Bounded, dtype: str) -> Bounded:
        text = f"(double){one.text}"
        if is_float(one.dtype):
            wider = _MANTISSA[dtype] >= _MANTISSA[one.dtype] and dtype != "float16"
            if wider or dtype == one.dtype:
                return replace(one, dtype=dtype)
        elif one.dtype == "bool" or bits_of(one.dtype) <= _MANTISSA[dtype]:
            return self._new(dtype, text, one.error)
        elif not one.error:
            # Whole numbers below this are floats as they are.
            value = self.fresh("double", text)
            u, most = unit(dtype), 2.0 ** _MANTISSA[dtype]
            error = f"fabs({value}) <= {most!r} ? 0.0 : {u!r} * fabs({value})"
            return Bounded(value, dtype, self.fresh("double", error))
        rounded = self._round(dtype, text, one.error)
        bound = f"within({rounded.text}, {rounded.error}, {LARGEST[dtype]!r})"
        return replace(rounded, error=self.fresh("double", bound))

    def _call(self, expr: Call) -> Bounded:
        args = [self.value(a) for a in expr.args]
        name, one = expr.name, args[0]
        if name == NEEDED:  # where that does not hold terms change nothing
            return one
        if name in _TESTS:
            error = f"{one.error} < INFINITY ? 0.0 : 1.0" if one.error else ""
            return self._new("bool", _TESTS[name].format(one.text), error)
        if not is_float(one.dtype):
            return self._integer_call(name, args)
        if name in _RISING:
            return self._monotone(name, one)
        if name == TF32:
            # Whether it is rounded or cut is left to kernels.
            return self._round(one.dtype, one.text, one.error, units=CUT_TO_TF32)
        if name not in _BOUNDS:
            raise MeasureError(f"no reference for the function {name!r} in {expr}")
        texts = [a.text for a in args] + ([] if len(args) > 1 else [""])
        bounds = [a.bound for a in args] + ([] if len(args) > 1 else [""])
        inexact = any(a.error for a in args)
        error = _BOUNDS[name].format(*texts, *bounds, z="{z}") if inexact else ""
        text = f"{'fabs' if name == 'abs' else name}({', '.join(a.text for a in args)})"
        if name in ULPS:
            return self._round(one.dtype, text, error, units=2 * ULPS[name])
        return self._new(one.dtype, text, error)

    def _monotone(self, name: str, one: Bounded) -> Bounded:
        function = _OTHER_NAMES.get(name, name + "({})")
        error = ""
        if one.error:
            low, high = (function.format(x) for x in _either_end(one))
            error = f"ends({{z}}, {low}, {high})"
        if name not in _WHOLE:
            return self._round(one.dtype, function.format(one.text), error, units=2 * ULPS[name])
        value = self.fresh("double", function.format(one.text))
        bound = self.fresh("double", error.replace("{z}", value)) if error else ""
        return Bounded(value, one.dtype, bound)

    def _integer_call(self, name: str, args: list[Bounded]) -> Bounded:
        first = args[0]
        uncertain = " + ".join(a.error for a in args if a.error)
        error = f"{uncertain} > 0 ? INFINITY : 0.0" if uncertain else ""
        if name in _BITWISE:
            text = f"{first.text} {_BITWISE[name]} {args[1].text}"
        elif name == "bitwise_not":
            text = f"~{first.text}"
        elif name == "abs":
            text, error = f"{first.text} < 0 ? -{first.text} : {first.text}", first.error
        elif name == "popcount":
            bits = f"(u{C_TYPES[first.dtype].removeprefix('u')})"
            text = f"__builtin_popcountll({bits}{first.text})"
        else:
            raise MeasureError(f"no reference for {name!r} of {first.dtype}")
        return self._new(first.dtype, f"({C_TYPES[first.dtype]})({text})", error)


def _either_end(one: Bounded) -> tuple[str, str]:
    return f"{one.text} - {one.error}", f"{one.text} + {one.error}"


def _int_text(node: IntImm) -> str:
    if node.dtype == "uint64":
        return f"{node.value}ull"
    return f"((int64_t){node.value}ll)" if node.value > -(1 << 63) else "INT64_MIN"


def _constant(node: IntImm | FloatImm) -> Bounded:
    """A constant as a kernel has it: rounded to its dtype, where C does that to 16 bits late."""
    with np.errstate(over="ignore"):
        value = float(numpy_dtype(node.dtype).type(node.value))
    if math.isnan(value):
        return Bounded("NAN", node.dtype)
    if math.isinf(value):
        return Bounded("INFINITY" if value > 0 else "(-INFINITY)", node.dtype)
    late = (
        abs(value - float(np.float32(node.value))) if node.dtype in ("float16", "bfloat16") else 0
    )
    text = repr(value)
    return Bounded(text, node.dtype, repr(float(late)) if late else "")
