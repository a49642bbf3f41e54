"""Sums of a loop that lanes of a warp exchange: each adds its own, and all are added up once.

A total over columns that several lanes have is a sum of what each adds up of its own. If what a
loop adds to a scaled total is such a sum, and the scale is the same for all of these lanes, each
lane may have a total of its own; these are added up behind the loop::

    for part:                                for part:
      share = sum of own columns               share = sum of own columns
      share += share of lane ^ 2      ->       total = total * scale + share
      share += share of lane ^ 1             total += total of lane ^ 2
      total = total * scale + share          total += total of lane ^ 1
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.ir.expr import Add, Call, IntImm, Load, Var
from autotune.ir.stmt import LetStmt, Seq, Stmt, Store, seq
from autotune.ir.visitor import StmtRewriter

_EXCHANGE = "shfl_xor"
# The distance between two lanes, and how many exchange.
Exchange = tuple[int, int]


def without_exchanges(stmt: Stmt) -> tuple[Stmt, Sequence[Exchange]]:
    """Returns a statement whose lanes do not add up what each has, and how they did."""
    found = _WithoutExchanges()
    return found.rewrite(stmt), tuple(found.exchanges)


def exchanged(total: Load, exchanges: Sequence[Exchange]) -> Stmt:
    """Returns the statement by which lanes add up a total that each has of its own."""
    stmts: list[Stmt] = []
    for i, (distance, width) in enumerate(exchanges):
        other = Var(f"{total.buffer.name}.other{i}", total.dtype)
        value = Call(_EXCHANGE, (total, IntImm(distance), IntImm(width)), total.dtype)
        both = Store(total.buffer, total.indices, Add(total, other))
        stmts.append(LetStmt(other, value, both))
    return seq(*stmts)


class _WithoutExchanges(StmtRewriter):
    """Leaves out what lanes add up of others, and notes it."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        """Leave an exchange out."""
        match node:
            case LetStmt(
                other,
                Call(name, (Load(share), IntImm(distance), IntImm(width))),
                Store(buffer, _, Add(Load(added), by)),
            ) if name == _EXCHANGE and by is other and share is buffer is added:
                self.exchanges.append((distance, width))
                return Seq(())
        return super().visit_LetStmt(node)
