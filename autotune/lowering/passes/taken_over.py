"""Lets shared buffers of products by ``wgmma`` take over the memory of ones used up before.

Threads that compute two products in turn, as the two of a gated layer, need room for the copies of
one only. Barriers are put in after this pass: one comes before the first copy of the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.ir.address import Address
from autotune.ir.expr import Expr, Load
from autotune.ir.stmt import Allocate, AsyncCopy, Buffer, For, LetStmt, Seq, Stmt, Store
from autotune.ir.structure import walk_once
from autotune.ir.visitor import Rewriter
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.sums_in_flight import multiplies


def take_over_storage(stmt: Stmt, draft: Draft) -> Stmt:
    """Lets shared buffers take the place of equal ones done with, in kernels with ``wgmma``."""
    if not draft.gpu or not multiplies(stmt):
        return stmt
    allocated, body = [], stmt
    while isinstance(body, Allocate | LetStmt) or (isinstance(body, For) and body.thread):
        allocated += [body.buffer] if isinstance(body, Allocate) else []
        body = body.body
    places = _places([each for each in allocated if each.scope == "shared"], body)
    if not places:
        return stmt
    for (buffer, at), slot in list(draft.slots.items()):
        if buffer in places:
            draft.slots[places[buffer], at] = slot
    return _TakeOver(places).rewrite(stmt)


def _places(buffers: Iterable[Buffer], body: Stmt) -> dict[Buffer, Buffer]:
    """Return for buffers the ones whose places they take: such as are used up before."""
    uses = [_used(each) for each in _in_order(body)]
    first, last = dict[Buffer, int](), dict[Buffer, int]()
    for at, used in enumerate(uses):
        for each in used:
            first.setdefault(each, at)
            last[each] = at
    found: dict[Buffer, Buffer] = {}
    free: list[tuple[int, Buffer]] = []
    for each in sorted((each for each in buffers if each in first), key=lambda b: first[b]):
        place = next((it for it in free if it[0] < first[each] and _alike(it[1], each)), None)
        if place is not None:
            free.remove(place)
            found[each] = place[1]
        free.append((last[each], found.get(each, each)))
    return found


def _in_order(stmt: Stmt) -> Sequence[Stmt]:
    """Return statements that run one after another."""
    if isinstance(stmt, Seq):
        return [one for each in stmt.stmts for one in _in_order(each)]
    return [stmt]


def _used(stmt: Stmt) -> set[Buffer]:
    """Return all buffers that a statement reads or writes."""
    found = set[Buffer]()
    for node in walk_once(stmt):
        if isinstance(node, Load | Store | Address):
            found.add(node.buffer)
        elif isinstance(node, AsyncCopy):
            found |= {node.src, node.dst}
    return found


def _alike(a: Buffer, b: Buffer) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape


class _TakeOver(Rewriter):
    """Replaces buffers by others."""

    def __init__(self, places: dict[Buffer, Buffer]) -> None:
        super().__init__()
        self.places = places

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Leave an allocation out."""
        body = self.rewrite(node.body)
        return body if node.buffer in self.places else Allocate(node.buffer, body)

    def visit_Load(self, node: Load) -> Expr:
        """Replace the buffer of a load."""
        return Load(self._place(node.buffer), self.rewrite_all(node.indices))

    def visit_Address(self, node: Address) -> Expr:
        """Replace the buffer of an address."""
        return node.at(self._place(node.buffer), self.rewrite(node.index))

    def visit_Store(self, node: Store) -> Stmt:
        """Replace the buffer of a store."""
        indices = self.rewrite_all(node.indices)
        return Store(self._place(node.buffer), indices, self.rewrite(node.value))

    def visit_AsyncCopy(self, node: AsyncCopy) -> Stmt:
        """Replace the buffers of a copy."""
        at, where = self.rewrite(node.dst_index), self.rewrite(node.src_index)
        return AsyncCopy(self._place(node.dst), at, self._place(node.src), where, node.bytes)

    def _place(self, buffer: Buffer) -> Buffer:
        return self.places.get(buffer, buffer)
