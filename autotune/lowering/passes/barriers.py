"""Barriers where, and only where, threads of a block would race for memory.

The pass walks each sequence with the accesses made since the last barrier. A statement that reads
what another thread may have written since, or writes what another may have read, gets a barrier
before it. For a loop the end of one iteration meets the start of the next. Two accesses do not
race if they are seen to touch an element from the same thread, or different slots of a pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import NoReturn

from autotune.errors import LoweringError
from autotune.ir.expr import Expr, IntImm, Var
from autotune.ir.stmt import (
    Allocate,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Buffer,
    Evaluate,
    For,
    ForKind,
    If,
    LetStmt,
    Seq,
    Stmt,
    Store,
    While,
    one_of_all,
    seq,
)
from autotune.ir.structure import walk_statements
from autotune.lowering.passes.accesses import Access, lie_apart
from autotune.lowering.passes.block_accesses import BlockAccesses
from autotune.lowering.passes.buffer_accesses import written_buffers
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.uses import Uses
from autotune.lowering.plan import Thread
from autotune.utils.assert_never import assert_never


@dataclass
class _Flow:
    """The accesses of a statement: those before its first barrier, and those after its last."""

    exposed: list[Access] = field(default_factory=list)
    pending: list[Access] = field(default_factory=list)
    has_barrier: bool = False


def _perhaps(flow: _Flow) -> _Flow:
    """Return the accesses of what may not run: its barriers keep nothing apart that is around."""
    return _Flow(flow.exposed, [*flow.exposed, *flow.pending], False)


class _Pending:
    """Accesses since the last barrier, by what may race with them.

    One stage writes an element from one thread, and a second stage writes a buffer only where it
    takes it over, after all reads of the first: a race is between a read and a write. In
    statements that a script wrote by hand two writes may race as well.
    """

    def __init__(self, accesses: Iterable[Access] = ()) -> None:
        self.all: list[Access] = []
        self._by_kind: dict[tuple[Buffer, bool], list[Access]] = {}
        self.add(accesses)

    def add(self, accesses: Iterable[Access]) -> None:
        """Note accesses."""
        for access in accesses:
            self.all.append(access)
            self._by_kind.setdefault((access.buffer, access.is_write), []).append(access)

    def opposite(self, access: Access) -> Sequence[Access]:
        """Return the writes of what is read, or the reads of what is written."""
        return self._by_kind.get((access.buffer, not access.is_write), ())

    def written(self, access: Access) -> Sequence[Access]:
        """Return the writes of what is written."""
        return self._by_kind.get((access.buffer, True), ()) if access.is_write else ()


def insert_barriers(stmt: Stmt, draft: Draft) -> Stmt:
    """Puts barriers where, and only where, threads of a block would race for memory."""
    block = [thread for thread in draft.threads if thread.tag.startswith("threadIdx")]
    common = {buffer for buffer in written_buffers(stmt) if buffer.scope != "local"}
    common -= draft.private
    if not block or not common:
        return stmt
    return _Planner(draft, block, common).visit(stmt)[0]


class _Planner:
    """Inserts barriers into the body of one kernel."""

    def __init__(self, draft: Draft, block: Sequence[Thread], common: Set[Buffer]) -> None:
        self.simplifier = draft.simplifier
        self.common = common
        self.accesses = BlockAccesses(draft, block, common)
        self.uses = Uses(draft.simplifier)
        self.by_hand = draft.by_hand
        # Variables of threads, and others whose values differ between them.
        self.varying = {thread.var for thread in block}
        self.diverged = False  # inside what not all threads run
        self.name = draft.stage
        self.around: frozenset[Var] = frozenset()  # of loops, with one value in all threads

    def visit(self, stmt: Stmt) -> tuple[Stmt, _Flow]:
        """Return the statement with barriers inside, and the accesses it is seen to make."""
        match one_of_all(stmt):
            case Seq(stmts):
                return self._sequence(stmts)
            case For() as loop:
                return self._loop(loop)
            case While() as loop:
                return self._while(loop)
            case If() as branch:
                return self._branch(branch)
            case Allocate(buffer, body):
                new, flow = self.visit(body)
                return Allocate(buffer, new), flow
            case LetStmt(var, value, body):
                if not self._is_known(value):
                    self.varying.add(var)
                new, flow = self.visit(body)
                reads = self.accesses.reads(value)
                flow.exposed[:0] = reads
                if not flow.has_barrier:
                    flow.pending[:0] = reads
                return LetStmt(var, value, new), flow
            case Barrier():
                return stmt, _Flow(has_barrier=True)
            case (Store() | AsyncCopy() | Evaluate() | AsyncCommit() | AsyncWait()) as leaf:
                accesses = self.accesses.of(leaf)
                return stmt, _Flow(accesses, list(accesses))
            case other:
                assert_never(other)

    # Statements made of statements.

    def _sequence(self, stmts: Sequence[Stmt]) -> tuple[Stmt, _Flow]:
        total = _Flow()
        pending = _Pending()
        result: list[Stmt] = []
        for stmt in stmts:
            new, flow = self.visit(stmt)
            if self._races(pending, flow.exposed, None, 0):
                result.append(Barrier("shared"))
                total.has_barrier = True
                pending = _Pending()
            if not total.has_barrier:
                total.exposed += flow.exposed
            if flow.has_barrier:
                pending = _Pending()
            pending.add(flow.pending)
            total.has_barrier = total.has_barrier or flow.has_barrier
            result.append(new)
        total.pending = pending.all
        return seq(*result), total

    def _loop(self, stmt: For) -> tuple[Stmt, _Flow]:
        outer = self.around
        uniform = self._is_known(stmt.extent)
        if not uniform:
            self.varying.add(stmt.var)
        self.around = (outer | {stmt.var}) - self.varying
        body, flow = self._visit_inside(stmt.body, uniform)
        self.around = outer
        # Without a barrier inside, iterations any distance apart may meet.
        step = 1 if flow.has_barrier else None
        several = stmt.kind is not ForKind.THREAD and stmt.iterations != 1
        if several and self._races(_Pending(flow.pending), flow.exposed, stmt.var, step):
            body = seq(Barrier("shared"), body)
            flow = _Flow([], flow.pending, True)
        if not uniform and _holds_barrier(body):
            self._refuse(f"run the loop `for {stmt.var} in 0..{stmt.extent}`")
        new = stmt.with_body(body)
        least, _ = self.simplifier.form_of(stmt.extent).bounds
        return new, flow if least >= 1 else _perhaps(flow)

    def _while(self, stmt: While) -> tuple[Stmt, _Flow]:
        reads, uniform = self.accesses.reads(stmt.cond), self._is_known(stmt.cond)
        body, flow = self._visit_inside(stmt.body, uniform)
        if self._races(_Pending(reads), flow.exposed, None, 0):
            body = seq(Barrier("shared"), body)
            flow = _Flow([], flow.pending, True)
        # The condition is asked again behind the body, without a barrier between.
        again, step = [*reads, *flow.exposed], 1 if flow.has_barrier else None
        if self._races(_Pending(flow.pending), again, Var("turn", "int32", "data"), step):
            body = seq(body, Barrier("shared"))
            flow = _Flow(flow.exposed, [], True)
        if not uniform and _holds_barrier(body):
            self._refuse(f"run the loop `while {stmt.cond}`")
        return While(stmt.cond, body), _perhaps(_Flow(again, [*flow.pending, *reads]))

    def _branch(self, stmt: If) -> tuple[Stmt, _Flow]:
        if not self.uses.of(stmt.cond).vars and not self.uses.of(stmt.cond).buffers:
            return self._decided(stmt)
        reads = self.accesses.reads(stmt.cond)
        uniform, taken = self._is_uniform(stmt.cond), f"take the branch `if {stmt.cond}`"
        with self.accesses.limited_by(stmt.cond):
            then, flow = self._visit_inside(stmt.then, uniform)
        other, rest = None, _Flow()
        if stmt.other is not None:
            other, rest = self._visit_inside(stmt.other, uniform)
        if not uniform:
            if self._races(_Pending(flow.pending), rest.exposed, None, 0):
                self._refuse(taken)
            if _holds_barrier(then) or (other is not None and _holds_barrier(other)):
                if other is not None or self.uses.of(stmt.cond).buffers:
                    self._refuse(taken)
                return self._split(stmt, then), flow
        new = stmt if then is stmt.then and other is stmt.other else If(stmt.cond, then, other)
        exposed = reads + flow.exposed + rest.exposed
        return new, _perhaps(_Flow(exposed, flow.pending + rest.pending))

    def _decided(self, stmt: If) -> tuple[Stmt, _Flow]:
        """Keep the side of a constant condition that is taken; the other makes no accesses."""
        cond = self.simplifier.simplify(stmt.cond)
        assert isinstance(cond, IntImm)
        taken = stmt.then if cond.value else stmt.other
        return self.visit(seq() if taken is None else taken)

    def _split(self, stmt: If, then: Stmt) -> Stmt:
        """Take the barriers out of a branch: branch, barrier, branch on the same condition."""
        result: list[Stmt] = []
        for each in then.stmts if isinstance(then, Seq) else (then,):
            if isinstance(each, Barrier):
                result.append(each)
            elif _holds_barrier(each):
                self._refuse(f"take the branch `if {stmt.cond}`")
            elif result and isinstance(result[-1], If):
                result[-1] = If(stmt.cond, seq(result[-1].then, each))
            else:
                result.append(If(stmt.cond, each))
        return seq(*result)

    def _is_uniform(self, cond: Expr) -> bool:
        used = self.uses.of(cond)
        return used.vars.isdisjoint(self.varying) and not used.buffers

    def _is_known(self, value: Expr) -> bool:
        """Return whether a value is seen to be the same in all threads; arrays may have it."""
        used = self.uses.of(value)
        arrays = all(each.scope == "global" and each not in self.common for each in used.buffers)
        return arrays and used.vars.isdisjoint(self.varying)

    def _visit_inside(self, stmt: Stmt, uniform: bool) -> tuple[Stmt, _Flow]:
        """Visit a branch, or the body of a loop, that all threads run alike or not."""
        outer = self.diverged
        self.diverged = outer or not uniform
        result = self.visit(stmt)
        self.diverged = outer
        return result

    def _refuse(self, what: str) -> NoReturn:
        advice = (
            "put the condition around the single accesses, so that all threads reach the same ones"
            if self.by_hand
            else "make the bound extents divide evenly, or compute the shared stage further out"
        )
        raise LoweringError(
            f"{self.name}: threads that {what} need a barrier inside it, which the others would "
            f"never reach; {advice}"
        )

    def _races(
        self, before: _Pending, after: Sequence[Access], var: Var | None, step: int | None
    ) -> bool:
        """Return whether accesses of different threads may meet.

        ``after`` comes ``step`` iterations of the loop over ``var`` later; a step of None stands
        for any number of iterations.
        """
        if any(self._race(a, b, var, step) for b in after for a in before.opposite(b)):
            return True
        return self.by_hand and any(
            self._race(a, b, var, step)
            for b in after
            for a in before.written(b)
            if not self.diverged or (a.is_plain and b.is_plain)
        )

    def _race(self, a: Access, b: Access, var: Var | None, step: int | None) -> bool:
        if a.high < b.low or b.high < a.low:
            return False
        if (a.owner is not None and a.owner == b.owner) or (a.alone and b.alone):
            return False
        if lie_apart(a, b, self.around, var):
            return False
        if a.slot is None or b.slot is None or step is None:
            return True
        if a.slot.var is var:
            return not a.slot.differs(b.slot, step)
        return a.slot.var not in self.around or not a.slot.differs(b.slot, 0)


def _holds_barrier(stmt: Stmt) -> bool:
    return any(isinstance(each, Barrier) for each in walk_statements(stmt))
