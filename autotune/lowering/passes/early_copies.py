"""Copies to shared memory before a ring of asynchronous copies: they are on their way with it.

What a block copies once, as attention does the queries of its rows, would be loaded, waited for
and stored before the first asynchronous copy begins. Copies that are asynchronous too belong to
the first group, which the ring waits for before anything reads them::

    shared_q = q                                    copy q to shared_q
    copy k[0] to ring[0]                    ->      copy k[0] to ring[0]
    commit                                          commit
    for part:                                       for part:
      wait, barrier, use shared_q, ring               wait, barrier, use shared_q, ring
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.ir.stmt import (
    Allocate,
    AsyncCommit,
    Buffer,
    For,
    ForKind,
    Seq,
    Stmt,
    Store,
    seq,
)
from autotune.ir.structure import walk
from autotune.ir.visitor import StmtRewriter
from autotune.lowering.passes.buffer_accesses import read_buffers, written_buffers
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.slots import ToCopies


def copy_early(stmt: Stmt, draft: Draft) -> Stmt:
    """Makes copies to shared memory before a ring of asynchronous ones asynchronous too."""
    return _Early(ToCopies(draft.simplifier)).rewrite(stmt) if draft.gpu else stmt


class _Early(StmtRewriter):
    """Rewrites sequences in which such a ring begins."""

    def __init__(self, copies: ToCopies) -> None:
        self.copies = copies

    def visit_Seq(self, node: Seq) -> Stmt:
        """Make the copies asynchronous that a commit follows before anything reads them."""
        stmts = [self.rewrite(each) for each in node.stmts]
        for i, each in enumerate(stmts):
            if _is_copy(each) and _is_committed(stmts[i + 1 :], written_buffers(each)):
                stmts[i] = self.copies.rewrite(each)
        return seq(*stmts)


def _is_copy(stmt: Stmt) -> bool:
    """Return whether loops only store in shared memory what is in global memory."""
    while isinstance(stmt, For):
        stmt = stmt.body
    if not isinstance(stmt, Store) or stmt.buffer.scope != "shared":
        return False
    return all(each.scope == "global" for each in read_buffers(stmt))


def _is_committed(stmts: Sequence[Stmt], buffers: set[Buffer]) -> bool:
    """Return whether copies are committed by what follows before it uses their buffers."""
    for each in _in_order(stmts):
        if isinstance(each, AsyncCommit):
            return True
        if buffers & (written_buffers(each) | read_buffers(each)):
            return False
        if any(isinstance(node, AsyncCommit) for node in walk(each)):
            return False
    return False


def _in_order(stmts: Sequence[Stmt]) -> Sequence[Stmt]:
    """Return statements, and those that allocations and threads have, one after another."""
    found: list[Stmt] = []
    for each in stmts:
        match each:
            case Seq(inner):
                found += _in_order(inner)
            case Allocate(_, body) | For(body=body, kind=ForKind.THREAD):
                found += _in_order([body])
            case _:
                found.append(each)
    return found
