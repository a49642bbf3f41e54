"""Shared stages computed ahead of their use: double buffers, and rings of asynchronous copies.

A loop that fills a buffer and then uses it becomes, with ``n`` copies of the buffer::

    fill slots 0 .. n - 2
    for k:
      wait for slot k % n, barrier                 # asynchronous copies only
      fill slot (k + n - 1) % n for k + n - 1
      use slot k % n

A fill that is not asynchronous loads before the use, and stores after it.

Products of warpgroups are at work while threads go on. Of four slots or more, a loop that does
nothing else with their sums waits for those of the iteration before only, and fills ahead by one
slot less; of three, what is filled one slot ahead would come too late::

    for k:
      wait for slot k % n, barrier
      begin to use slot k % n
      fill slot (k + n - 2) % n for k + n - 2
      wait until k - 1 is used

Where threads pass an operand, products are two groups, and slots are filled behind the first.

Of a loop over parts that multiplies twice the second product overlaps with the next part
(`autotune.lowering.passes.overlapped`), which needs what the first one reads of that part. This is
filled one iteration further ahead than the rest::

    fill slots 0 .. n - 2, first of slot n - 1
    wait for slot 0, barrier
    use first of slot 0
    for k:                                       # but the last
      wait for first of slot (k + 1) % n, barrier
      fill first of slot k % n for k + n, second of slot (k + n - 1) % n for k + n - 1
      use first of slot (k + 1) % n, second of slot k % n
    wait, barrier
    use second of the last slot

A loop marked ``persistent`` is over the turns of a block, which computes one tile after another.
What a pipeline in it begins with is filled a turn ahead: it is on its way while results are
stored::

    fill slots 0 .. n - 2 for turn 0
    for turn:
      for k: ...
      barrier
      fill slots 0 .. n - 2 for turn + 1
      store results
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from math import isinf, prod

from autotune.ir.analysis_affine import Affine, constant, shift_affine
from autotune.ir.expr import Expr, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import (
    Allocate,
    AsyncCommit,
    AsyncWait,
    Barrier,
    Buffer,
    For,
    If,
    LetStmt,
    Seq,
    Stmt,
    seq,
)
from autotune.ir.visitor import StmtRewriter
from autotune.lowering.extents import constant_iterations
from autotune.lowering.passes.buffer_accesses import read_buffers, written_buffers
from autotune.lowering.passes.draft import Draft, Slots
from autotune.lowering.passes.overlapped import Turns, TwoProducts
from autotune.lowering.passes.ownership import Slot
from autotune.lowering.passes.predicated_copies import copied_or_zero
from autotune.lowering.passes.slots import Move, ToCopies, padded_size
from autotune.lowering.passes.staging import stage_through_registers
from autotune.lowering.passes.sums_in_flight import (
    after_first_group,
    uses_sums,
    waited,
    without_waits,
)
from autotune.lowering.stage_nest import PIPELINE, PipelinedBuffer

# Marks a loop over the turns of a block, whose pipelines begin a turn ahead.
PERSISTENT = "persistent"
# Slots with which products of one iteration are at work in the next.
LATE_SLOTS = 4


def pipeline_loops(stmt: Stmt, draft: Draft) -> Stmt:
    """Turns marked loops into pipelines: double buffers, and rings of asynchronous copies.

    ``draft.slots`` is told which slot each new index is in, which is more than the index shows.
    """
    pipeliner = _Pipeliner(draft.simplifier, draft.slots, Turns(_warpgroups(draft)))
    stmt = pipeliner.rewrite(stmt)
    return _Reallocate(pipeliner.rings).rewrite(stmt) if pipeliner.rings else stmt


def _warpgroups(draft: Draft) -> int:
    """Return how many warpgroups a block has."""
    return prod([thread.count for thread in draft.threads if "threadIdx" in thread.tag]) // 128


def _fills_and_uses(
    body: Stmt, buffers: Set[Buffer], is_async: bool
) -> tuple[list[Stmt], list[Stmt]] | None:
    """Return the statements of an iteration that fill buffers, and the others.

    None if it is not simply "fill, then use": a fill is in the wrong place, or needs what another
    stage computes in the same iteration, or what another fill has only begun to copy.
    """
    stmts = body.stmts if isinstance(body, Seq) else (body,)
    written = {each: written_buffers(each) for each in stmts}
    fills = [each for each in stmts if written[each] and written[each] <= buffers]
    uses = [each for each in stmts if each not in fills]
    filled = {buffer for each in fills for buffer in written[each]}
    late = {buffer for each in uses for buffer in written[each]} | (buffers if is_async else set())
    if filled != buffers or any(read_buffers(each) & late for each in fills):
        return None
    return fills, uses


@dataclass
class _TileLoop:
    """A persistent loop over tiles, the buffers written in it, and the statements before it."""

    loop: For
    written: set[Buffer]
    before: list[Stmt]


class _Pipeliner(StmtRewriter):
    """Rewrites the marked loops; ``rings`` maps each buffer to the larger one it became."""

    def __init__(self, simplifier: Simplifier, slots: Slots, in_turn: Turns) -> None:
        self.simplifier = simplifier
        self.slots = slots
        self.in_turn = in_turn
        self.rings: dict[Buffer, Buffer] = {}
        # Those in whose body the statement stands, on its own level.
        self.turns: _TileLoop | None = None

    def visit_If(self, node: If) -> Stmt:
        """Visit the body; a pipeline under a condition starts there."""
        with self._inside(None):
            return super().visit_If(node)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        """Visit the body; a pipeline that depends on the value starts there."""
        with self._inside(None):
            return super().visit_LetStmt(node)

    def visit_For(self, node: For) -> Stmt:
        """Turn a marked loop into a pipeline."""
        iterations, loop = node.iterations, node.without_annotations(PERSISTENT)
        if node.annotations.get(PERSISTENT) and iterations is not None and iterations > 1:
            turns = _TileLoop(node, written_buffers(node.body), [])
            with self._inside(turns):
                body = self.rewrite(node.body)
            return seq(*turns.before, loop.with_body(body))
        with self._inside(None):
            body = self.rewrite(node.body)
        # How many iterations there are has to be limited to fill the slots ahead of them.
        marks = node.annotations.get(PIPELINE) if self._is_limited(node) else None
        if not marks:
            return loop.with_body(body)
        return self._pipeline(loop.without_annotations(PIPELINE).with_body(body), marks)

    def _is_limited(self, loop: For) -> bool:
        """Return whether a loop has a constant number of iterations, or so many at most."""
        return not isinf(self.simplifier.form_of(loop.extent).bounds[1])

    @contextmanager
    def _inside(self, turns: _TileLoop | None) -> Iterator[None]:
        outer, self.turns = self.turns, turns
        yield
        self.turns = outer

    def _pipeline(self, loop: For, marks: Sequence[PipelinedBuffer]) -> Stmt:
        buffers, is_async = {mark.buffer for mark in marks}, any(mark.is_async for mark in marks)
        found = _fills_and_uses(loop.body, buffers, is_async)
        if found is None:
            return loop  # as it is, it is right, if slower
        fills, uses = found
        depth = max(mark.depth for mark in marks)
        for buffer in buffers:
            size = padded_size(buffer)
            self.rings[buffer] = Buffer(buffer.name, (depth * size,), buffer.dtype, buffer.scope)
        use = seq(*uses)
        late = is_async and depth >= LATE_SLOTS and not uses_sums(use)
        begun, end = without_waits(use) if late else (use, seq())
        is_late = begun is not use
        lead = depth - 2 if is_late else depth - 1
        extent = self.simplifier.form_of(loop.extent)
        ring = _Ring(loop, extent, depth, lead, is_async, is_late)
        used = self._moved(begun, ring, 0)
        halves = TwoProducts.of(uses) if is_async and self.turns is None else None
        overlapped = halves and self._overlapped(ring, fills, halves)
        if overlapped:
            return overlapped
        if is_async:
            return self._asynchronous(ring, seq(*fills), used, end)
        return self._double_buffer(ring, seq(*fills), used)

    def _asynchronous(self, ring: _Ring, fill: Stmt, use: Stmt, end: Stmt) -> Stmt:
        """Return a ring of copies; ``end`` is what still has to be waited for after it, if any."""
        more, in_range = self._ahead(ring, fill), self._in_range(ring, ring.lead)
        arrival = (AsyncWait(ring.lead - 1), Barrier("shared"))
        groups = after_first_group(use) if ring.is_late else None
        copies = None if groups is None else copied_or_zero(more, in_range)
        if groups is not None and copies is not None:
            # Threads wait for instructions before they load what the next ones read.
            first, rest = groups
            body = seq(*arrival, first, copies, AsyncCommit(), rest)
            end = seq(AsyncWait(0), end)  # zeros must not come later than what is copied next
        elif ring.is_late:
            body = seq(*arrival, use, If(in_range, more), AsyncCommit(), waited(1))
        else:
            body = seq(*arrival, If(in_range, more), AsyncCommit(), use)
        return self._over_turns(ring, fill, seq(ring.loop.with_body(body), end))

    def _overlapped(self, ring: _Ring, fills: Sequence[Stmt], halves: TwoProducts) -> Stmt | None:
        """Return a ring whose second products run in the next iteration; None if none can."""
        early, late = (
            [each for each in fills if written_buffers(each) <= read_buffers(half)]
            for half in (halves.first, halves.second)
        )
        least, most = ring.extent.bounds
        # What both products read of a part would be filled anew before the second one reads it.
        apart = {*early}.isdisjoint(late) and len(early) + len(late) == len(fills)
        # Loops that run once, as of two parts, are left out with their variable (`unroll_loops`).
        if not apart or least < 1 or most < 3:
            return None
        lead, start, end = ring.lead, constant(0), shift_affine(ring.extent, -1)
        is_there = self.simplifier.compare("<", constant(lead), ring.extent)
        ahead = self._copied(ring, self._at(seq(*early), ring, constant(lead)))
        first = (self._first(ring, seq(*fills)), If(is_there, ahead), AsyncCommit())
        begin = [self._at(each, ring, start) for each in halves.alone]
        later = self._copied(ring, self._moved(seq(*early), ring, lead + 1))
        others = self._ahead(ring, seq(*late))
        arrival = (AsyncWait(lead - 1), Barrier("shared"))
        fill = (
            If(self._in_range(ring, lead + 1), later),
            others if lead == 1 else If(self._in_range(ring, lead), others),
            AsyncCommit(),
        )
        begun = (self._moved(halves.first, ring, 1), self._moved(halves.second, ring, 0))
        turns = self.in_turn
        body = seq(
            *arrival,
            *((turns.wait, *begun, turns.next, *fill) if turns.are_two else (*fill, *begun)),
            waited(1),
            self._moved(seq(halves.first_sums, halves.factors), ring, 1),
            self._moved(halves.held, ring, 1) if turns.are_two else seq(),
            waited(0),
            self._moved(seq(halves.second_sums, halves.prepared), ring, 1),
        )
        notes, extent = ring.loop.annotations, self.simplifier.expr(end)
        loop = For(ring.loop.var, extent, ring.loop.kind, body, None, notes)
        last = (self._at(halves.second, ring, end), waited(0), halves.second_sums)
        whole = (turns.begin, loop, turns.end, *arrival, *last)
        return seq(*first, AsyncWait(lead), Barrier("shared"), *begin, *whole)

    def _double_buffer(self, ring: _Ring, fill: Stmt, use: Stmt) -> Stmt:
        more, in_range = self._ahead(ring, fill), self._in_range(ring, ring.lead)
        # What a fill reads of another ring has to be there before the use, not after it.
        is_plain = read_buffers(fill).isdisjoint(self.rings)
        staged = stage_through_registers(more, self.simplifier) if is_plain else None
        first = self._first(ring, fill)
        if staged is None:
            return seq(first, ring.loop.with_body(seq(If(in_range, more), use)))
        body = seq(If(in_range, staged.load), use, If(in_range, staged.store))
        return seq(first, _allocated(staged.buffers, ring.loop.with_body(body)))

    def _over_turns(self, ring: _Ring, fill: Stmt, rest: Stmt) -> Stmt:
        """Return a ring that is filled before, or a turn ahead where blocks take turns."""
        simplifier, turns = self.simplifier, self.turns
        if turns is None or read_buffers(fill) & turns.written:
            return seq(self._first(ring, fill), rest)
        # Slots of one turn are in use until its end.
        var, count = turns.loop.var, constant_iterations(turns.loop, PERSISTENT)
        turns.before.append(self._first(ring, fill, {var: constant(0)}))
        following = shift_affine(simplifier.var(var), 1)
        more = self._first(ring, fill, {var: following})
        return seq(rest, If(simplifier.compare("<", following, constant(count)), more))

    # Fills and uses of one slot.

    def _in_range(self, ring: _Ring, step: int) -> Expr:
        """Return whether there is an iteration so many after the present one."""
        ahead = shift_affine(self.simplifier.var(ring.loop.var), step)
        return self.simplifier.compare("<", ahead, ring.extent)

    def _first(self, ring: _Ring, fill: Stmt, env: Mapping[Var, Affine] | None = None) -> Stmt:
        """Return the prologue: the fills of the slots that are filled before the loop."""
        stmts: list[Stmt] = []
        least, most = ring.extent.bounds
        for i in range(ring.lead):
            if i < most:
                moved = self._copied(ring, self._at(fill, ring, constant(i), env))
                is_there = self.simplifier.compare("<", constant(i), ring.extent)
                stmts.append(moved if i < least else If(is_there, moved))
            if ring.is_async:
                stmts.append(AsyncCommit())
        return seq(*stmts)

    def _ahead(self, ring: _Ring, fill: Stmt) -> Stmt:
        """Return the fill of the slot of a later iteration."""
        return self._copied(ring, self._moved(fill, ring, ring.lead))

    def _copied(self, ring: _Ring, fill: Stmt) -> Stmt:
        return ToCopies(self.simplifier).rewrite(fill) if ring.is_async else fill

    def _moved(self, stmt: Stmt, ring: _Ring, step: int) -> Stmt:
        """Return a statement of the iteration so many after the present one, at its slot."""
        iteration = shift_affine(self.simplifier.var(ring.loop.var), step)
        env = {ring.loop.var: iteration} if step else {}
        offset = self.simplifier.floormod(iteration, ring.depth)
        move = Move(self.simplifier, env, self.rings, offset)
        stmt = move.rewrite(stmt)
        self.slots.update(dict.fromkeys(move.places, Slot(ring.loop.var, step, ring.depth)))
        return stmt

    def _at(
        self, stmt: Stmt, ring: _Ring, iteration: Affine, env: Mapping[Var, Affine] | None = None
    ) -> Stmt:
        """Return a statement of any iteration, with some other variables replaced too."""
        offset = self.simplifier.floormod(iteration, ring.depth)
        known = {**(env or {}), ring.loop.var: iteration}
        return Move(self.simplifier, known, self.rings, offset).rewrite(stmt)


@dataclass(frozen=True)
class _Ring:
    """A loop that becomes a pipeline: its slots, and how many are filled ahead of their use."""

    loop: For
    extent: Affine
    depth: int
    lead: int
    is_async: bool
    is_late: bool


class _Reallocate(StmtRewriter):
    """Allocates rings instead of the buffers that they replace."""

    def __init__(self, rings: Mapping[Buffer, Buffer]) -> None:
        self.rings = rings

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Allocate the ring."""
        body = self.rewrite(node.body)
        return Allocate(self.rings.get(node.buffer, node.buffer), body)


def _allocated(buffers: Sequence[Buffer], stmt: Stmt) -> Stmt:
    for buffer in buffers:
        stmt = Allocate(buffer, stmt)
    return stmt
