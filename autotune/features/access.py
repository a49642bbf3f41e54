"""Reads and arithmetic of an expression, and the strides of its indices."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.ir import Add, BinaryOp, Div, Expr, FloorMod, Mul, ProducerLoad, Sub, TruncMod, Var
from autotune.ir.analysis_affine import Affine, Atom, AtomKind
from autotune.ir.dtype import is_float
from autotune.ir.visitor import Visitor
from autotune.te.tensor import Tensor


class ArithmeticCount:
    """Floating-point additions, multiplications and divisions in a piece of text."""

    __slots__ = ("additions", "divisions", "multiplications")

    def __init__(self) -> None:
        self.additions = 0
        self.multiplications = 0
        self.divisions = 0


class AccessVisitor(Visitor):
    """Counts the arithmetic of expressions in ``count``; a subclass handles reads."""

    def __init__(self, count: ArithmeticCount) -> None:
        self.count = count

    def read_tensor(self, tensor: Tensor, indices: Sequence[Expr]) -> None:
        """Handle the read of an element."""
        raise NotImplementedError

    def read_variable(self, var: Var) -> None:
        """Handle a variable."""
        raise NotImplementedError

    def visit_ProducerLoad(self, node: ProducerLoad) -> None:
        """Report a read."""
        self.read_tensor(node.tensor, node.indices)

    def visit_Var(self, node: Var) -> None:
        """Report a variable."""
        self.read_variable(node)

    def visit_Add(self, node: Add | Sub) -> None:
        """Count an addition, or a subtraction as one."""
        self.count.additions += is_float(node.dtype)
        self.visit_BinaryOp(node)

    visit_Sub = visit_Add

    def visit_Mul(self, node: Mul) -> None:
        """Count a multiplication."""
        self.count.multiplications += is_float(node.dtype)
        self.visit_BinaryOp(node)

    def visit_Div(self, node: Div | FloorMod | TruncMod) -> None:
        """Count a division, or a remainder as one."""
        self.count.divisions += is_float(node.dtype)
        self.visit_BinaryOp(node)

    visit_FloorMod = visit_Div
    visit_TruncMod = visit_Div

    def visit_BinaryOp(self, node: BinaryOp) -> None:
        """Visit both operands."""
        self.visit(node.a)
        self.visit(node.b)


def steps_of(index: Affine) -> dict[Var, int]:
    """Return for each variable of an index how far its first step moves the index.

    For a sum of multiples this is the factor. A variable inside a division that only later steps
    of it get past moves the index by 1, so that 0 always means: the index does not depend on it.
    """
    steps: dict[Var, int] = {}
    hidden: set[Var] = set()
    for atom, factor in index.terms.items():
        if atom.kind is AtomKind.VAR:
            (var,) = atom.vars
            steps[var] = steps.get(var, 0) + factor
            continue
        for var in atom.vars:
            hidden.add(var)
            moved = _value(atom, var) - _value(atom, None)
            steps[var] = steps.get(var, 0) + factor * moved
    for var in hidden:
        steps[var] = steps[var] or 1
    return steps


def _value(atom: Atom, one: Var | None) -> int:
    """Return the value of an atom where one variable is 1 and all others are 0."""
    if atom.kind is AtomKind.VAR:
        return int(one in atom.vars)
    if atom.form is None:
        return 0
    inner = atom.form.const
    for part, factor in atom.form.terms.items():
        if one in part.vars or part.kind is not AtomKind.VAR:
            inner += factor * _value(part, one)
    return inner // atom.divisor if atom.kind is AtomKind.DIV else inner % atom.divisor
