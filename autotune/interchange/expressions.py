"""Expressions that stand as text in a T1 file, such as ``list(range(1, 9))``: values, not code.

They are Python's, of numbers, texts, lists, comparisons and a few functions. Nothing else is
evaluated: no attribute, no call of anything but the functions below, no large power or range.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from autotune.errors import RecordError

# Most steps, values of a list, characters of a text, and bits of a number of an expression.
_MOST, _LONGEST, _BITS = 100_000, 10_000, 4096

_BINARY: Mapping[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.LShift: operator.lshift, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}  # fmt: skip
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], object]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_,
}  # fmt: skip
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


class ExpressionRefused(RecordError, ValueError):
    """A text is no expression that is evaluated here; the message quotes the part."""


@dataclass(frozen=True)
class Expression:
    """A text that was read as an expression, and can be evaluated with names.

    Attributes:
        text: as it stood in the file.
        names: what it asks for.
    """

    text: str
    names: frozenset[str]
    _node: ast.expr

    @staticmethod
    def parse(text: object) -> Expression:
        """Read a text.

        Raises:
            ExpressionRefused: it is none, or has a part that is not evaluated.
        """
        if not isinstance(text, str) or len(text) > _LONGEST:
            raise ExpressionRefused(f"expected an expression as a text, got {str(text)[:80]!r}")
        try:
            node = ast.parse(text.strip(), mode="eval").body
            asked = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            made = {
                one.id
                for one in ast.walk(node)
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
            }
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ExpressionRefused(
                f"{text[:80]!r} is no expression: {str(error)[:80]}"
            ) from error
        for one in ast.walk(node):
            if not isinstance(one, _KNOWN):
                raise ExpressionRefused(f"{text[:80]!r}: {type(one).__name__} is not evaluated")
        return Expression(text, frozenset(asked - made - _FUNCTIONS.keys()), node)

    def __call__(self, values: Mapping[str, object]) -> object:
        """Return the value, with these under its names; they may be symbols.

        Raises:
            ExpressionRefused: a name has no value, or the result would be too large.
        """
        try:
            return _Evaluation(values).value(self._node)
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            if isinstance(error, ExpressionRefused):
                raise
            raise ExpressionRefused(f"{self.text[:80]!r}: {str(error)[:120]}") from error


class _Evaluation:
    """One evaluation: the names that have values, and how many parts may still be looked at."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = dict(values)
        self._left = _MOST

    def value(self, node: ast.AST) -> Any:
        """Return the value of a part."""
        self._spend(1)
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._named(name)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return [self.value(part) for part in parts]
            case ast.UnaryOp(op=op, operand=operand):
                return _UNARY[type(op)](self.value(operand))
            case ast.BinOp(left=left, op=op, right=right):
                return self._applied(type(op), self.value(left), self.value(right))
            case ast.BoolOp(op=op, values=parts):
                return self._joined(isinstance(op, ast.And), parts)
            case ast.Compare(left=left, ops=ops, comparators=rights):
                return self._compared(left, ops, rights)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.value(body if self.value(test) else other)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                return self._called(name, [self.value(one) for one in args])
            case ast.ListComp(elt=part, generators=[one]) if isinstance(one.target, ast.Name):
                return self._listed(part, one.target.id, one)
            case _:
                raise ExpressionRefused(f"{type(node).__name__} is not evaluated here")

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise ExpressionRefused("it takes too many steps")

    def _touched(self, *values: object) -> None:
        """Count what goes through lists and texts as many steps as they have parts."""
        self._spend(sum(len(one) for one in values if isinstance(one, (list, str))))

    def _called(self, name: str, args: list[object]) -> object:
        self._touched(*args)
        found = _FUNCTIONS[name](*args)
        self._touched(found)
        return found

    def _applied(self, op: type[ast.operator], left: object, right: object) -> object:
        self._touched(left, right)
        return _bounded(op, left, right)

    def _named(self, name: str) -> object:
        if name not in self._values:
            raise ExpressionRefused(f"nothing is called {name[:80]!r}")
        return self._values[name]

    def _joined(self, every: bool, parts: list[ast.expr]) -> object:
        """Return what ``and`` or ``or`` gives: the first part that decides, or the last."""
        found: object = every
        for part in parts:
            found = self.value(part)
            if bool(found) is not every:
                break
        return found

    def _compared(self, left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr]) -> object:
        before, result = self.value(left), True
        for op, right in zip(ops, rights, strict=True):
            after = self.value(right)
            self._touched(before, after)
            result = _COMPARE[type(op)](before, after)
            if len(ops) > 1 and not result:
                return result
            before = after
        return result

    def _listed(self, part: ast.expr, name: str, loop: ast.comprehension) -> list[object]:
        outer, found = dict(self._values), []
        for one in self.value(loop.iter):
            self._values[name] = one
            if all(self.value(test) for test in loop.ifs):
                found.append(self.value(part))
        self._values = outer
        return found


def _bounded(op: type[ast.operator], left: object, right: object) -> object:
    """Return the result of an operation that cannot use up the memory."""
    sizes = [len(one) for one in (left, right) if isinstance(one, (list, str))]
    if sizes and op is not ast.Add:
        raise ExpressionRefused("lists and texts are only added")
    if op in (ast.Pow, ast.LShift) and not _small(right):
        raise ExpressionRefused("a power or shift by more than 64 is not evaluated")
    if sum(sizes) > _MOST or any(_long(one) for one in (left, right)):
        raise ExpressionRefused("the numbers or lists are too large")
    return _BINARY[op](left, right)


def _long(value: object) -> bool:
    return isinstance(value, int) and value.bit_length() > _BITS


def _small(value: object) -> bool:
    return not isinstance(value, (int, float)) or abs(value) <= 64


def _range(*args: Any) -> list[int]:
    found = range(*args)
    if len(found) > _MOST:
        raise ExpressionRefused(f"a range of more than {_MOST} values")
    return list(found)


_FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "range": _range, "list": list, "tuple": list, "min": min, "max": max, "abs": abs,
    "len": len, "sum": lambda values: sum(values), "int": int, "float": float,
}  # fmt: skip
_KNOWN: tuple[type[ast.AST], ...] = (
    ast.Constant, ast.Name, ast.List, ast.Tuple, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare,
    ast.IfExp, ast.Call, ast.ListComp, ast.comprehension, ast.expr_context, ast.boolop,
    *_BINARY, *_UNARY, *_COMPARE,
)  # fmt: skip
