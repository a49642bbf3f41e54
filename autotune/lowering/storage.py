"""Where buffers are declared: as far out as they can be, so that no loop declares them anew."""

from __future__ import annotations

from autotune.ir.stmt import Allocate, Buffer, For, ForKind, If, LetStmt, Seq, Stmt, seq


def hoist_allocations(stmt: Stmt) -> Stmt:
    """Move allocations to the top, or to the top of the parallel loop that they belong to.

    Each iteration of a parallel loop needs buffers of its own.
    """
    found: list[Buffer] = []
    return _declare(_hoist(stmt, found), found)


def _declare(body: Stmt, buffers: list[Buffer]) -> Stmt:
    for buffer in reversed(buffers):
        body = Allocate(buffer, body)
    return body


def _hoist(stmt: Stmt, found: list[Buffer]) -> Stmt:
    match stmt:
        case Allocate(buffer, body):
            found.append(buffer)
            return _hoist(body, found)
        case For():
            if stmt.kind is ForKind.PARALLEL:
                own: list[Buffer] = []
                body = _declare(_hoist(stmt.body, own), own)
            else:
                body = _hoist(stmt.body, found)
            if body is stmt.body:
                return stmt
            return stmt.with_body(body)
        case Seq(stmts):
            return seq(*[_hoist(each, found) for each in stmts])
        case If(cond, then, other):
            rest = _hoist(other, found) if other is not None else None
            return If(cond, _hoist(then, found), rest)
        case LetStmt(var, value, body):
            return LetStmt(var, value, _hoist(body, found))
        case _:
            return stmt
