"""Asynchronous copies under a condition, without a branch: else they write zeros.

A branch between products of a warpgroup whose operands threads load meanwhile makes the assembler
wait for each of them (``ptxas``, C7513); so do copies with predicates, which it may collect behind
one. That a copy reads nothing is an operand of the instruction (`autotune.codegen.zero_fill`).
"""

from __future__ import annotations

from autotune.ir.dtype import bits_of
from autotune.ir.expr import And, Broadcast, Call, Expr, FloatImm, Ramp
from autotune.ir.stmt import AsyncCopy, For, ForKind, If, Stmt, Store
from autotune.ir.visitor import StmtRewriter

# Bytes of the copies that have such an operand.
_BYTES = 16
# More copies of a thread than this stay a loop, which is a branch.
_MOST_COPIES = 32


def copied_or_zero(stmt: Stmt, cond: Expr) -> Stmt | None:
    """Returns copies where a condition holds, and zeros where not; None if they cannot be."""
    each = _Each(cond)
    stmt = each.rewrite(stmt)
    return stmt if each.copies_alone else None


def _both(a: Expr, b: Expr) -> Expr:
    """Return whether both conditions hold, each of which is evaluated: without a branch."""
    if isinstance(b, And):
        a, b = _both(a, b.a), b.b
    return Call("bitwise_and", (a, b), "bool")


class _Each(StmtRewriter):
    """Puts the condition on each copy, and writes loops over them out."""

    def __init__(self, cond: Expr) -> None:
        self.cond = cond
        self.copies_alone = True

    def visit_For(self, node: For) -> Stmt:
        """Write a loop out."""
        if node.iterations is None or node.iterations > _MOST_COPIES:
            self.copies_alone = False
        body = self.rewrite(node.body)
        return For(node.var, node.extent, ForKind.UNROLLED, body, node.thread, node.annotations)

    def visit_AsyncCopy(self, node: AsyncCopy) -> Stmt:
        """Put the condition on a copy."""
        dtype = node.dst.dtype
        if node.bytes != _BYTES or dtype != "float32":
            return self.visit_Stmt(node)
        lanes = _BYTES * 8 // bits_of(dtype)
        zeros = Broadcast(FloatImm(0.0, dtype), lanes)
        return If(self.cond, node, Store(node.dst, (Ramp(node.dst_index, 1, lanes),), zeros))

    def visit_If(self, node: If) -> Stmt:
        """Put it on a copy with zeros, which has a condition already."""
        if not isinstance(node.then, AsyncCopy) or not isinstance(node.other, Store):
            return self.visit_Stmt(node)
        if node.then.bytes != _BYTES:
            return self.visit_Stmt(node)
        return If(_both(self.cond, node.cond), node.then, node.other)

    def visit_Stmt(self, node: Stmt) -> Stmt:
        """Note what is no copy."""
        self.copies_alone = False
        return node

    visit_Store = visit_Evaluate = visit_Barrier = visit_Allocate = visit_Stmt
    visit_LetStmt = visit_While = visit_Stmt
