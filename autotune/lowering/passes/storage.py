"""Hoists allocations as far out as possible, so that no loop repeats them."""

from __future__ import annotations

from autotune.ir.stmt import Allocate, Buffer, For, ForKind, Stmt
from autotune.ir.visitor import StmtRewriter
from autotune.lowering.passes.draft import Draft


def hoist_allocations(stmt: Stmt, draft: Draft) -> Stmt:
    """Moves allocations to the top, or to the top of the parallel loop that they belong to.

    Each iteration of a parallel loop needs buffers of its own.
    """
    del draft
    hoist = _Hoist()
    return hoist.declared(stmt)


class _Hoist(StmtRewriter):
    """Takes allocations out of statements, and notes their buffers."""

    def __init__(self) -> None:
        self.found: list[Buffer] = []

    def declared(self, stmt: Stmt) -> Stmt:
        """Returns a statement with all allocations in it around it."""
        outer, self.found = self.found, []
        body = self.rewrite(stmt)
        for buffer in reversed(self.found):
            body = Allocate(buffer, body)
        self.found = outer
        return body

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Take an allocation out."""
        self.found.append(node.buffer)
        return self.rewrite(node.body)

    def visit_For(self, node: For) -> Stmt:
        """Keep the allocations of a parallel loop inside it."""
        if node.kind is not ForKind.PARALLEL:
            return super().visit_For(node)
        return node.with_body(self.declared(node.body))
