"""Asynchronous copies that a condition allows, each by itself: without a branch.

A branch between products of a warpgroup whose operands threads load meanwhile makes the assembler
wait for each of them (``ptxas``, C7513), a predicate of the instruction does not.
"""

from __future__ import annotations

from autotune.ir.expr import Call, Expr
from autotune.ir.stmt import AsyncCopy, For, ForKind, If, Stmt
from autotune.ir.visitor import StmtRewriter

# Says that a condition is a predicate of the copy that it allows.
PREDICATED = "predicated"
# More copies of a thread than this stay a loop, which is a branch.
_MOST_COPIES = 32


def predicated(stmt: Stmt, cond: Expr) -> Stmt | None:
    """Returns copies that a condition allows; None if a statement does anything else.

    Conditions of zeros in place of padding would be branches too.
    """
    each = _Each(cond)
    stmt = each.rewrite(stmt)
    return stmt if each.copies_alone else None


class _Each(StmtRewriter):
    """Puts a predicate on each copy, and writes loops over them out."""

    def __init__(self, cond: Expr) -> None:
        self.predicate = Call(PREDICATED, (cond,), cond.dtype)
        self.copies_alone = True

    def visit_For(self, node: For) -> Stmt:
        """Write a loop out."""
        if node.iterations is None or node.iterations > _MOST_COPIES:
            self.copies_alone = False
        body = self.rewrite(node.body)
        return For(node.var, node.extent, ForKind.UNROLLED, body, node.thread, node.annotations)

    def visit_AsyncCopy(self, node: AsyncCopy) -> Stmt:
        """Put the predicate on a copy."""
        return If(self.predicate, node)

    def visit_Stmt(self, node: Stmt) -> Stmt:
        """Note what is no copy."""
        self.copies_alone = False
        return node

    visit_Store = visit_Evaluate = visit_Barrier = visit_Allocate = visit_Stmt
    visit_If = visit_LetStmt = visit_While = visit_Stmt
