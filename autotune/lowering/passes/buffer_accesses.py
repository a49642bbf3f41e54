"""The buffers that a statement writes, and those that it reads."""

from __future__ import annotations

from autotune.ir.address import Address, addresses_in
from autotune.ir.expr import Load
from autotune.ir.stmt import AsyncCopy, Buffer, Evaluate, Stmt, Store
from autotune.ir.structure import walk_once
from autotune.ir.visitor import StmtVisitor


class _Written(StmtVisitor):
    def __init__(self) -> None:
        self.buffers: set[Buffer] = set()

    def visit_Store(self, node: Store) -> None:
        self.buffers.add(node.buffer)

    def visit_AsyncCopy(self, node: AsyncCopy) -> None:
        self.buffers.add(node.dst)

    def visit_Evaluate(self, node: Evaluate) -> None:
        found = addresses_in(node.value)
        self.buffers.update(each.buffer for each in found if "w" in each.access)


def written_buffers(stmt: Stmt) -> set[Buffer]:
    """Returns the buffers that a statement writes."""
    found = _Written()
    found.visit(stmt)
    return found.buffers


def read_buffers(stmt: Stmt) -> set[Buffer]:
    """Returns the buffers that a statement loads from."""
    return {
        node.buffer
        for node in walk_once(stmt)
        if isinstance(node, Load) or (isinstance(node, Address) and "r" in node.access)
    }
