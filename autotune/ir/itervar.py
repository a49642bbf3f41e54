"""Iteration variables: the axes of computes and schedules."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from autotune.errors import ExpressionError
from autotune.ir.base import Expr, FloatImm, Operand, Var, as_expr


def whole(value: object) -> Any:
    """Return a whole number that came as a float (``1024 / 32`` is one) as an int.

    Everything else is returned as it is.
    """
    number = value.value if isinstance(value, FloatImm) else value
    if isinstance(number, Integral) or not isinstance(number, Real):
        return value
    return int(float(number)) if float(number).is_integer() else value


class Range:
    """The values ``min .. min + extent - 1`` of an iteration variable."""

    __slots__ = ("extent", "min")

    def __init__(self, min: object, extent: object) -> None:
        self.min = as_expr(whole(min))
        self.extent = as_expr(whole(extent))

    def __repr__(self) -> str:
        return f"range(min={self.min}, ext={self.extent})"


class IterVar(Operand):
    """An iteration variable with its domain; in an expression it is replaced by its ``var``.

    ``kind`` is ``"data"`` for a dimension of a tensor, ``"reduce"`` for one that is reduced, and
    ``"thread"`` or ``"vthread"`` for a thread axis; ``thread_tag`` says which one. ``dom`` is None
    where the domain follows from other axes, or from the loop that is bound to a thread.
    """

    __slots__ = ("dom", "kind", "thread_tag", "var")

    def __init__(self, var: Var, dom: Range | None, kind: str, thread_tag: str = "") -> None:
        self.var = var
        self.dom = dom
        self.kind = kind
        self.thread_tag = thread_tag

    def to_expr(self) -> Expr:
        """Return the variable."""
        return self.var

    @property
    def name(self) -> str:
        """The name of the variable."""
        return self.var.name

    @property
    def dtype(self) -> str:
        """The dtype of the variable."""
        return self.var.dtype

    @property
    def extent(self) -> Expr:
        """The number of iterations; raise `ExpressionError` if the domain is not known yet."""
        if self.dom is None:
            raise ExpressionError(f"axis {self.name!r}: its extent is known only after lowering")
        return self.dom.extent

    def __repr__(self) -> str:
        return f"iter_var({self.name}, {self.dom}, {self.thread_tag or self.kind})"
