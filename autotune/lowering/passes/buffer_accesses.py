"""The buffers that a statement writes, and those that it reads."""

from __future__ import annotations

from autotune.ir.address import Address, addresses_in
from autotune.ir.expr import Load
from autotune.ir.stmt import AsyncCopy, Buffer, Evaluate, Stmt, Store
from autotune.ir.visitor import StmtVisitor, Visitor


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


class _Read(Visitor):
    def __init__(self) -> None:
        self.buffers: set[Buffer] = set()

    def visit_Load(self, node: Load) -> None:
        self.buffers.add(node.buffer)
        for index in node.indices:
            self.visit(index)

    def visit_Address(self, node: Address) -> None:
        if "r" in node.access:
            self.buffers.add(node.buffer)
        self.visit(node.index)


def read_buffers(stmt: Stmt) -> set[Buffer]:
    """Returns the buffers that a statement loads from."""
    found = _Read()
    found.visit(stmt)
    return found.buffers
