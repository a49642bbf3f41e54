"""Sums that parts of rows carry from one to the next, as in FlashAttention-2 (Dao, 2023).

A loop that joins what parts of rows have (`autotune.te.online`) computes a maximum, powers and
sums of each part, and scales both these and what was found before::

    for part:
      highest = max of part
      powers = exp2(part - highest)
      sums = 0
      sums += powers * values
      new = max(most, highest)
      total, most = total * exp2(most - new) + sums * exp2(highest - new), new

Powers may be of a difference to any number that is no less than all before. If it is the maximum
of this part and of all before, the second factor is one, so sums go on from those before::

    highest, sums = -inf, 0
    for part:
      highest = max(highest, max of part)
      powers = exp2(part - highest)
      sums *= exp2(most - highest)
      sums += powers * values
      most = highest
    total = sums

Several columns of a thread have the same maximum and total of powers: these are there once. Lanes
that have powers of the same row each have a total of their own (`late_exchange`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set
from dataclasses import dataclass

from autotune.ir.expr import Add, Expr, FloatImm, IntImm, Load, Max, Mul, Var
from autotune.ir.stmt import Allocate, Buffer, For, If, LetStmt, Seq, Stmt, Store, seq
from autotune.ir.structure import variables, walk, walk_statements
from autotune.ir.visitor import Rewriter, StmtRewriter, Visitor, substitute
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.late_exchange import Exchange, exchanged, without_exchanges
from autotune.lowering.passes.warp_memory import in_registers
from autotune.te.intrinsics import least
from autotune.te.joined_parts import JOINS_PARTS


def carry_sums(stmt: Stmt, draft: Draft) -> Stmt:
    """Lets sums of parts of rows go on from those of the parts before, in the same registers."""
    lanes = {t.var: t.count for t in draft.threads if t.tag == "threadIdx.x"}
    return _Carry(lanes, in_registers(stmt, draft)).rewrite(stmt)


@dataclass(frozen=True)
class _Joined:
    """What a loop does last: it joins maxima (the first) and sums of parts.

    Attributes:
        loops: around the rest.
        names: of the new values.
        totals: what was found before, by value.
        parts: what a part adds to each but the first.
        factors: by which what was found before is scaled.
        most: the new maximum.
        highest: the buffer of maxima of a part.
    """

    loops: Sequence[For]
    names: Sequence[Var]
    totals: Sequence[Load]
    parts: Sequence[Load]
    factors: Sequence[Expr]
    most: Expr
    highest: Buffer

    @classmethod
    def of(cls, stmt: Stmt) -> _Joined | None:
        """Return what a statement joins; None if it does something else."""
        loops, names, values = [], [], []
        while isinstance(stmt, For):
            loops.append(stmt)
            stmt = stmt.body
        while isinstance(stmt, LetStmt):
            names.append(stmt.var)
            values.append(stmt.value)
            stmt = stmt.body
        stores = stmt.stmts if isinstance(stmt, Seq) else ()
        if not values or len(stores) != len(values):
            return None
        totals = []
        for store, name in zip(stores, names, strict=True):
            if not isinstance(store, Store) or store.value is not name:
                return None
            totals.append(Load(store.buffer, store.indices))
        # Other loops join several parts, each of which has sums of its own.
        of_totals = set(variables(*totals[0].indices))
        if any(loop.iterations != 1 and loop.var not in of_totals for loop in loops):
            return None
        parts, factors = [], []
        for value, total in zip(values[1:], totals[1:], strict=True):
            match value:
                case Add(Mul(Load(buffer), factor), Mul(Load() as part, _)):
                    if buffer is not total.buffer:
                        return None
                    parts.append(part)
                    factors.append(factor)
                case _:
                    return None
        others = {node.buffer for node in walk(values[0]) if isinstance(node, Load)}
        others -= {totals[0].buffer}
        if len(others) != 1:
            return None
        return cls(loops, names, totals, parts, factors, values[0], *others)

    def around(self, body: Stmt, without: Container[Var] = ()) -> Stmt:
        """Put the loops around a statement, but those over some variables."""
        for loop in reversed(self.loops):
            body = body if loop.var in without else loop.with_body(body)
        return body

    def columns(self, sums: Buffer) -> dict[Var, Expr]:
        """Return the first of columns that have the same maxima, and totals that are no sums.

        They begin alike, and nothing but a column's own maximum tells it from others.
        """
        apart = _Outside(self.totals[0].buffer)
        for each in (self.most, *self.factors, *self.parts):
            if not isinstance(each, Load) or each.buffer is not sums:
                apart.visit(each)
        return {loop.var: IntImm(0) for loop in self.loops if loop.var not in apart.found}

    def scaled(self, sums: Buffer) -> Stmt:
        """Return the statement that scales sums before terms of a part are added."""
        columns = self.columns(sums)
        pairs = zip(self.parts, self.factors, strict=True)
        return self.around(
            seq(
                *[
                    Store(sums, each.indices, Mul(each, substitute(factor, columns)))
                    for each, factor in pairs
                    if each.buffer is sums
                ]
            )
        )

    def rest(self, sums: Buffer) -> Stmt:
        """Return the statement that joins maxima, and parts that are not in such sums."""
        columns = self.columns(sums)
        stores = [_store(self.totals[0], columns, self.names[0])]
        lets = [(self.names[0], self.most)]
        joined = zip(self.names[1:], self.totals[1:], self.parts, self.factors, strict=True)
        for name, total, part, factor in joined:
            if part.buffer is not sums:
                lets.append((name, Add(Mul(total, factor), part)))
                stores.append(_store(total, columns, name))
        body = seq(*stores)
        for name, value in reversed(lets):
            body = LetStmt(name, substitute(value, columns), body)
        return self.around(body, columns)

    def is_of_lanes(self, buffer: Buffer, lanes: Container[Var]) -> bool:
        """Return whether lanes may have totals of their own, which all of them scale alike."""
        joined = zip(self.totals[1:], self.parts, self.factors, strict=True)
        found = [each for each in joined if each[1].buffer is buffer]
        own = bool(found) and all(total.buffer.scope == "local" for total, _, _ in found)
        read = variables(self.most, *(each for row in found for each in row))
        return own and not any(var in lanes for var in read)

    def exchanged(self, sums: Buffer, late: Mapping[Buffer, Sequence[Exchange]]) -> Stmt:
        """Return the statement by which lanes add up totals that they have of their own."""
        columns = self.columns(sums)
        stmts = [
            exchanged(_load(total, columns), late[part.buffer])
            for total, part in zip(self.totals[1:], self.parts, strict=True)
            if part.buffer in late
        ]
        return self.around(seq(*stmts), columns)

    def taken(self, sums: Buffer) -> Stmt:
        """Return the statement that takes the sums over after the loop."""
        columns = self.columns(sums)
        pairs = zip(self.totals[1:], self.parts, strict=True)
        stores = [
            _store(total, {}, part if part.buffer is sums else substitute(total, columns))
            for total, part in pairs
            if part.buffer is sums or columns
        ]
        return self.around(seq(*stores))


class _Carry(StmtRewriter):
    """Rewrites the loops that join parts."""

    def __init__(self, lanes: Mapping[Var, int], own: Set[Buffer]) -> None:
        self.lanes, self.own = lanes, own

    def visit_For(self, node: For) -> Stmt:
        """Rewrite a marked loop."""
        if JOINS_PARTS not in node.annotations:
            return super().visit_For(node)
        plain = node.without_annotations(JOINS_PARTS)
        return self._carried(plain) or plain

    def _carried(self, loop: For) -> Stmt | None:
        """Return a loop whose sums go on from part to part; None if it is of another form."""
        made, stmts = _flat(loop.body)
        joined = _Joined.of(stmts[-1]) if stmts else None
        if joined is None:
            return None
        sums = next((each.buffer for each in joined.parts if each.buffer.scope == "local"), None)
        if sums not in made or joined.highest not in made:
            return None
        places = _maximum_and_zeros(stmts, joined.highest, sums)
        if places is None:
            return None
        highest, begin = places
        lowest = _only(stmts[highest], joined.highest, least("float32"))
        first = seq(lowest, stmts[begin])
        stmts[highest] = _Running(joined.highest).rewrite(stmts[highest])
        stmts[begin] = joined.scaled(sums)
        apart = [b for b in made if b in self.own and joined.is_of_lanes(b, self.lanes)]
        late = _exchange_late(stmts, apart, max(self.lanes.values(), default=0))
        stmts[-1] = joined.rest(sums)
        body = seq(*stmts)
        for buffer in reversed([each for each in made if each not in (sums, joined.highest)]):
            body = Allocate(buffer, body)
        after = (joined.exchanged(sums, late), joined.taken(sums))
        whole = seq(first, loop.with_body(body), *after)
        return Allocate(joined.highest, Allocate(sums, whole))


def _maximum_and_zeros(
    stmts: Sequence[Stmt], highest: Buffer, sums: Buffer
) -> tuple[int, int] | None:
    """Return which statement finds the maximum of a part, and which later one zeroes its sums.

    None if the maximum is not found by one statement, from the part alone, or sums do not begin at
    zero.
    """
    written = [_stores(each) for each in stmts]
    of_sums = [i for i, each in enumerate(written) if any(s.buffer is sums for s in each)]
    of_most = [i for i, each in enumerate(written) if any(s.buffer is highest for s in each)]
    if len(of_sums) < 2 or len(of_most) != 1 or of_sums[0] < of_most[0]:
        return None
    begin, place = of_sums[0], of_most[0]
    maxima = [s for s in written[place] if s.buffer is highest]
    if any(highest in _read(each.value) for each in maxima):
        return None
    zeros = all(s.buffer is sums and _is_zero(s.value) for s in written[begin])
    return (place, begin) if zeros else None


def _exchange_late(
    stmts: list[Stmt], buffers: Sequence[Buffer], lanes: int
) -> dict[Buffer, Sequence[Exchange]]:
    """Let so many lanes not add up what a part adds to totals; return how they did, by buffer."""
    late = {}
    for buffer in buffers:
        places = [
            i for i, each in enumerate(stmts) if any(s.buffer is buffer for s in _stores(each))
        ]
        if len(places) != 1:
            continue
        alone, exchanges = without_exchanges(stmts[places[0]])
        if exchanges and all(width <= lanes for _, width in exchanges):
            stmts[places[0]], late[buffer] = alone, exchanges
    return late


def _flat(stmt: Stmt) -> tuple[list[Buffer], list[Stmt]]:
    """Return the buffers that are allocated for a whole statement, and its statements."""
    match stmt:
        case Allocate(buffer, body):
            made, stmts = _flat(body)
            return [buffer, *made], stmts
        case Seq(stmts):
            found = [_flat(each) for each in stmts]
            return [b for made, _ in found for b in made], [s for _, each in found for s in each]
        case For() if stmt.iterations == 1 and stmt.thread is None:
            made, inner = _flat(stmt.body)
            return ([], [stmt]) if made else ([], [stmt.with_body(each) for each in inner])
        case _:
            return [], [stmt]


def _stores(stmt: Stmt) -> list[Store]:
    return [node for node in walk_statements(stmt) if isinstance(node, Store)]


def _read(value: Expr) -> set[Buffer]:
    return {node.buffer for node in walk(value) if isinstance(node, Load)}


def _is_zero(value: Expr) -> bool:
    return isinstance(value, FloatImm) and value.value == 0


def _load(at: Load, places: dict[Var, Expr]) -> Load:
    """Return the load at other places."""
    return Load(at.buffer, tuple([substitute(index, places) for index in at.indices]))


def _store(at: Load, places: dict[Var, Expr], value: Expr) -> Store:
    """Return the store of a value where a load would read it."""
    return Store(at.buffer, _load(at, places).indices, value)


class _Outside(Visitor):
    """Collects the variables of what is no index of a buffer."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.found: set[Var] = set()

    def visit_Load(self, node: Load) -> None:
        """Visit indices of other buffers."""
        if node.buffer is not self.buffer:
            self.generic(node)

    def visit_Var(self, node: Var) -> None:
        """Note a variable."""
        self.found.add(node)


def _only(stmt: Stmt, buffer: Buffer, value: Expr) -> Stmt:
    """Return the loops around the store to a buffer, which stores a value instead."""
    match stmt:
        case Store():
            return Store(buffer, stmt.indices, value)
        case Allocate(_, body) | LetStmt(_, _, body):
            return _only(body, buffer, value)
        case For():
            return stmt.with_body(_only(stmt.body, buffer, value))
        case If(cond, then, other):
            inner = _only(then, buffer, value)
            return inner if other is not None else If(cond, inner)
        case Seq(stmts):
            (found,) = [e for e in stmts if any(s.buffer is buffer for s in _stores(e))]
            return _only(found, buffer, value)
        case _:
            raise AssertionError(stmt)


class _Running(Rewriter):
    """Lets a maximum be that of what was there before, too."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    def visit_Store(self, node: Store) -> Stmt:
        """Take the larger of both."""
        if node.buffer is not self.buffer:
            return node
        before = Load(node.buffer, node.indices)
        return Store(node.buffer, node.indices, Max(before, node.value))
