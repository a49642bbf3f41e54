"""Elementwise functions given as text: checked, then translated to CUDA C++, C and numpy.

The text is an expression in Python's syntax, of names of operands, numbers, ``+ - * / **``,
comparisons, ``where(condition, a, b)`` and the functions of `FUNCTIONS`. It is never evaluated as
Python: it is parsed, and every node of its tree must be known here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.errors import TemplateError

from ..common import Array

Values = Mapping[str, Array]


def _erf(x: Array) -> Array:
    from scipy.special import erf  # scipy takes half a second to load

    values: Array = erf(x)
    return values


def normal_cdf(x: Array) -> Array:
    """Return the distribution function of the standard normal distribution."""
    from scipy.special import ndtr  # scipy takes half a second to load

    values: Array = ndtr(x)
    return values


# By name: number of operands, name in CUDA C++ on floats, function in numpy.
FUNCTIONS: dict[str, tuple[int, str, Callable[..., Any]]] = {
    "exp": (1, "expf", np.exp),
    "log": (1, "logf", np.log),
    "sqrt": (1, "sqrtf", np.sqrt),
    "rsqrt": (1, "rsqrtf", lambda x: 1 / np.sqrt(x)),
    "sin": (1, "sinf", np.sin),
    "cos": (1, "cosf", np.cos),
    "tanh": (1, "tanhf", np.tanh),
    "erf": (1, "erff", _erf),
    "abs": (1, "fabsf", np.abs),
    "floor": (1, "floorf", np.floor),
    "ceil": (1, "ceilf", np.ceil),
    "sigmoid": (1, "sigmoid_of", lambda x: 1 / (1 + np.exp(-x))),
    "relu": (1, "relu_of", lambda x: np.maximum(x, 0)),
    "gelu": (1, "gelu_of", lambda x: x * normal_cdf(x)),
    "max": (2, "larger", np.maximum),
    "min": (2, "smaller", np.minimum),
    "pow": (2, "powf", np.power),
}
_BINARY: dict[type[ast.operator], tuple[str, Callable[..., Any]]] = {
    ast.Add: ("+", np.add),
    ast.Sub: ("-", np.subtract),
    ast.Mult: ("*", np.multiply),
    ast.Div: ("/", np.divide),
}
_COMPARED: dict[type[ast.cmpop], tuple[str, Callable[..., Any]]] = {
    ast.Lt: ("<", np.less),
    ast.LtE: ("<=", np.less_equal),
    ast.Gt: (">", np.greater),
    ast.GtE: (">=", np.greater_equal),
}


@dataclass(frozen=True)
class Dialect:
    """How expressions are written in a language.

    Attributes:
        functions: names of those of `FUNCTIONS`.
        choice: of two values, after a condition.
    """

    functions: Mapping[str, str]
    choice: str


CUDA = Dialect({name: each[1] for name, each in FUNCTIONS.items()}, "({} ? {} : {})")
# Functions and choices without branches, so that loops of them become loops of vectors.
_VECTORISED = ("exp", "log", "tanh", "erf", "sigmoid")
C = Dialect(
    {
        **CUDA.functions,
        **{name: f"{name}_f32" for name in _VECTORISED},
        "rsqrt": "rsqrt",
        "relu": "relu",
        "gelu": "gelu",
    },
    "select_f32({}, {}, {})",
)
# The least number that becomes an infinite float32: half a step above the greatest finite one.
_OVERFLOWS = 2.0**128 - 2.0**103
# Most levels of an expression, since translation is recursive.
DEEPEST = 100


class Expression:
    """A checked expression of the operands ``names``."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self.text, self.names = text, tuple(names)
        try:
            self.tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise TemplateError(f"elementwise: {text!r} is no expression: {error}") from None
        self._check_depth()
        self.text_in(CUDA)  # which refuses what is none
        self.flop = max(
            1, sum(isinstance(n, ast.operator | ast.Call) for n in ast.walk(self.tree))
        )

    def _check_depth(self) -> None:
        level: list[ast.AST] = [self.tree]
        for _ in range(DEEPEST):
            level = [child for node in level for child in ast.iter_child_nodes(node)]
            if not level:
                return
        raise TemplateError(f"elementwise: {self.text[:60]!r}... is nested too deeply")

    def reads(self, name: str) -> bool:
        """Return whether an operand occurs in the expression."""
        return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(self.tree))

    def _refuse(self, node: ast.AST, expected: str) -> TemplateError:
        return TemplateError(
            f"elementwise: {ast.unparse(node)!r} in {self.text!r} must be {expected}"
        )

    def _call(self, node: ast.Call) -> tuple[str, list[ast.expr]]:
        """Return the function's name and its operands."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        count = 3 if name == "where" else FUNCTIONS.get(name, (0,))[0]
        if not count or len(node.args) != count or node.keywords:
            known = ", ".join(("where", *FUNCTIONS))
            raise self._refuse(node, f"a call, with as many operands as it has, of {known}")
        return name, node.args

    def text_in(self, dialect: Dialect) -> str:
        """Return the expression in a language, with ``x(i)`` for operand ``i``."""
        return self._text(self.tree, dialect)

    def _text(self, node: ast.AST, dialect: Dialect) -> str:
        def text(part: ast.AST) -> str:
            return self._text(part, dialect)

        match node:
            case ast.Name(id=name) if name in self.names:
                return f"x({self.names.index(name)})"
            case ast.Constant(value=bool()):
                pass
            case ast.Constant(value=int() | float() as number) if abs(number) < _OVERFLOWS:
                return f"{float(number)!r}f"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"(-{text(operand)})"
            case ast.BinOp(op=ast.Pow(), left=left, right=right):
                return f"{dialect.functions['pow']}({text(left)}, {text(right)})"
            case ast.BinOp(op=op, left=left, right=right) if type(op) in _BINARY:
                return f"({text(left)} {_BINARY[type(op)][0]} {text(right)})"
            case ast.Call():
                return self._call_text(node, dialect)
        raise self._refuse(node, f"a number, an operation, or one of {', '.join(self.names)}")

    def _call_text(self, node: ast.Call, dialect: Dialect) -> str:
        name, operands = self._call(node)
        if name == "where":
            test = self._test(operands[0], dialect)
            return dialect.choice.format(
                test, *(self._text(each, dialect) for each in operands[1:])
            )
        values = ", ".join(self._text(each, dialect) for each in operands)
        return f"{dialect.functions[name]}({values})"

    def _test(self, node: ast.AST, dialect: Dialect) -> str:
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
                sides = (self._text(each, dialect) for each in (left, right))
                return f"({f' {_COMPARED[type(op)][0]} '.join(sides)})"
        raise self._refuse(node, "one comparison: <, <=, > or >=")

    def numpy(self, values: Values, node: ast.AST | None = None) -> Any:
        """Return the value of the expression, or of a part of it."""
        match self.tree if node is None else node:
            case ast.Name(id=name):
                return values[name]
            case ast.Constant(value=number):
                return number
            case ast.UnaryOp(operand=operand):
                return -self.numpy(values, operand)
            case ast.BinOp(op=ast.Pow(), left=left, right=right):
                return np.power(self.numpy(values, left), self.numpy(values, right))
            case ast.BinOp(op=op, left=left, right=right):
                return _BINARY[type(op)][1](self.numpy(values, left), self.numpy(values, right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _COMPARED[type(op)][1](self.numpy(values, left), self.numpy(values, right))
            case ast.Call() as call:
                name, operands = self._call(call)
                run = np.where if name == "where" else FUNCTIONS[name][2]
                return run(*(self.numpy(values, each) for each in operands))
        raise AssertionError(ast.dump(self.tree))
