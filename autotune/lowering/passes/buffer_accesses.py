"""The buffers that a statement writes, and those that it reads."""

from __future__ import annotations

from autotune.ir.address import Address, addresses_in
from autotune.ir.expr import Load
from autotune.ir.stmt import AsyncCopy, Buffer, Evaluate, Stmt, Store
from autotune.ir.structure import walk_once, walk_statements


def written_buffers(stmt: Stmt) -> set[Buffer]:
    """Returns the buffers that a statement writes."""
    found = set[Buffer]()
    for node in walk_statements(stmt):
        match node:
            case Store():
                found.add(node.buffer)
            case AsyncCopy():
                found.add(node.dst)
            case Evaluate(value):
                found |= {each.buffer for each in addresses_in(value) if "w" in each.access}
            case _:
                pass
    return found


def read_buffers(stmt: Stmt) -> set[Buffer]:
    """Returns the buffers that a statement loads from."""
    return {
        node.buffer
        for node in walk_once(stmt)
        if isinstance(node, Load) or (isinstance(node, Address) and "r" in node.access)
    }
