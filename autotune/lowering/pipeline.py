"""Shared stages computed ahead of their use: double buffers, and rings of asynchronous copies.

A loop that fills a buffer and then uses it becomes, with ``n`` copies of the buffer::

    fill slots 0 .. n - 2
    for k:
      wait for slot k % n, barrier                 # asynchronous copies only
      fill slot (k + n - 1) % n for k + n - 1
      use slot k % n

A fill that is not asynchronous loads before the use, and stores after it.

Products of warpgroups are at work while threads go on. Of four slots or more, the loop waits for
those of the iteration before only, and fills ahead by one slot less; of three, what is filled one
slot ahead would come too late::

    for k:
      wait for slot k % n, barrier
      begin to use slot k % n
      fill slot (k + n - 2) % n for k + n - 2
      wait until k - 1 is used

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

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from autotune.ir.analysis_affine import Affine, constant, shift_affine
from autotune.ir.dtype import bits_of, element_of, lanes_of
from autotune.ir.expr import Expr, IfThenElse, Load, Ramp, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import (
    Allocate,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Buffer,
    For,
    If,
    LetStmt,
    Seq,
    Stmt,
    Store,
    seq,
)
from autotune.ir.visitor import Rewriter, StmtRewriter
from autotune.lowering.draft import Draft, Slots
from autotune.lowering.extents import constant_iterations, known
from autotune.lowering.ownership import Slot
from autotune.lowering.stage_nest import PIPELINE, PipelinedBuffer
from autotune.lowering.staging import stage_through_registers
from autotune.lowering.warpgroups import waited, without_waits
from autotune.lowering.written import read_buffers, written_buffers

COPIED_BYTES = (4, 8, 16)
ALIGNMENT_BYTES = 16
# Marks a loop over the turns of a block, whose pipelines begin a turn ahead.
PERSISTENT = "persistent"
# Slots with which products of one iteration are at work in the next.
LATE_SLOTS = 4


def pipeline_loops(stmt: Stmt, draft: Draft) -> Stmt:
    """Turns marked loops into pipelines: double buffers, and rings of asynchronous copies.

    ``draft.slots`` is told which slot each new index is in, which is more than the index shows.
    """
    pipeliner = _Pipeliner(draft.simplifier, draft.slots)
    stmt = pipeliner.rewrite(stmt)
    return _Reallocate(pipeliner.rings).rewrite(stmt) if pipeliner.rings else stmt


@dataclass
class _Turns:
    """A loop over the turns of a block, the buffers written in it, and what stands before it."""

    loop: For
    written: set[Buffer]
    before: list[Stmt]


class _Pipeliner(StmtRewriter):
    """Rewrites the marked loops; ``rings`` maps each buffer to the larger one it became."""

    def __init__(self, simplifier: Simplifier, slots: Slots) -> None:
        self.simplifier = simplifier
        self.slots = slots
        self.rings: dict[Buffer, Buffer] = {}
        # Those in whose body the statement stands, on its own level.
        self.turns: _Turns | None = None

    def visit_If(self, node: If) -> Stmt:
        """Look inside; what is under a condition begins there."""
        with self._inside(None):
            return super().visit_If(node)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        """Look inside; what needs a value begins there."""
        with self._inside(None):
            return super().visit_LetStmt(node)

    def visit_For(self, node: For) -> Stmt:
        """Turn a marked loop into a pipeline."""
        iterations, notes = node.iterations, dict(node.annotations)
        if notes.pop(PERSISTENT, None) and iterations is not None and iterations > 1:
            turns = _Turns(node, written_buffers(node.body), [])
            with self._inside(turns):
                body = self.rewrite(node.body)
            rest = For(node.var, node.extent, node.kind, body, node.thread, notes)
            return seq(*turns.before, rest)
        with self._inside(None):
            body = self.rewrite(node.body)
        # How many iterations there are has to be known to fill the slots ahead of them.
        marks = notes.pop(PIPELINE, ()) if iterations is not None else ()
        if not marks and body is node.body:
            return node
        plain = For(node.var, node.extent, node.kind, body, node.thread, notes)
        return self._pipeline(plain, marks) if marks else plain

    @contextmanager
    def _inside(self, turns: _Turns | None) -> Iterator[None]:
        outer, self.turns = self.turns, turns
        yield
        self.turns = outer

    def _pipeline(self, loop: For, marks: Sequence[PipelinedBuffer]) -> Stmt:
        buffers = {mark.buffer for mark in marks}
        stmts = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
        written = {each: written_buffers(each) for each in stmts}
        fills = [each for each in stmts if written[each] and written[each] <= buffers]
        uses = [each for each in stmts if each not in fills]
        filled = {buffer for each in fills for buffer in written[each]}
        made = {buffer for each in uses for buffer in written[each]}
        if filled != buffers or any(read_buffers(each) & made for each in fills):
            # The loop is not simply "fill, then use": a fill is in the wrong place, or needs what
            # another stage computes in the same iteration. As it is, it is right, if slower.
            return loop
        depth = max(mark.depth for mark in marks)
        is_async = any(mark.is_async for mark in marks)
        if is_async and any(read_buffers(each) & buffers for each in fills):
            # One fill reads what another has only begun to copy.
            return loop
        for buffer in buffers:
            size = _padded_size(buffer)
            self.rings[buffer] = Buffer(buffer.name, (depth * size,), buffer.dtype, buffer.scope)
        return self._ring(loop, seq(*fills), seq(*uses), depth, is_async)

    def _ring(self, loop: For, fill: Stmt, use: Stmt, depth: int, is_async: bool) -> Stmt:
        simplifier = self.simplifier
        extent = constant_iterations(loop, "pipeline")
        k = simplifier.var(loop.var)
        begun, end = without_waits(use) if is_async and depth >= LATE_SLOTS else (use, seq())
        is_late = begun is not use
        lead = depth - 2 if is_late else depth - 1
        ahead = shift_affine(k, lead)
        now, then = Slot(loop.var, 0, depth), Slot(loop.var, lead, depth)
        commit = AsyncCommit() if is_async else None

        def first(env: Mapping[Var, Affine]) -> Iterator[Stmt | None]:
            for i in range(lead):
                if i < extent:
                    yield self._filled(fill, loop.var, constant(i), depth, is_async, None, env)
                yield commit

        more = self._filled(fill, loop.var, ahead, depth, is_async, then, {})
        in_range = simplifier.compare("<", ahead, constant(extent))
        used = self._moved(begun, {}, k, depth, now)
        # What a fill reads of another ring has to be there before the use, not after it.
        is_plain = not is_async and read_buffers(fill).isdisjoint(self.rings)
        staged = stage_through_registers(more, simplifier) if is_plain else None
        arrival = (AsyncWait(lead - 1), Barrier("shared"))
        if is_late:
            body = seq(*arrival, used, If(in_range, more), commit, waited(1))
        elif is_async:
            body = seq(*arrival, If(in_range, more), commit, used)
        elif staged is not None:
            body = seq(If(in_range, staged.load), used, If(in_range, staged.store))
        else:
            body = seq(If(in_range, more), used)
        rest: Stmt = loop.with_body(body)
        for buffer in staged.buffers if staged is not None else ():
            rest = Allocate(buffer, rest)
        turns = self.turns
        if turns is None or not is_async or read_buffers(fill) & turns.written:
            return seq(*first({}), rest, end)
        # Slots of one turn are in use until its end.
        turn, count = simplifier.var(turns.loop.var), constant_iterations(turns.loop, PERSISTENT)
        turns.before.append(seq(*first({turns.loop.var: constant(0)})))
        following = shift_affine(turn, 1)
        more = seq(*first({turns.loop.var: following}))
        return seq(rest, end, If(simplifier.compare("<", following, constant(count)), more))

    def _filled(
        self,
        fill: Stmt,
        var: Var,
        iteration: Affine,
        depth: int,
        is_async: bool,
        slot: Slot | None,
        env: Mapping[Var, Affine],
    ) -> Stmt:
        stmt = self._moved(fill, {**env, var: iteration}, iteration, depth, slot)
        return _ToCopies(self.simplifier).rewrite(stmt) if is_async else stmt

    def _moved(
        self, stmt: Stmt, env: Mapping[Var, Affine], k: Affine, depth: int, slot: Slot | None
    ) -> Stmt:
        offset = self.simplifier.floormod(k, depth)
        move = _Move(self.simplifier, env, self.rings, offset)
        stmt = move.rewrite(stmt)
        if slot is not None:
            self.slots.update(dict.fromkeys(move.places, slot))
        return stmt


class _Move(Rewriter):
    """Replaces variables, and moves accesses of ring buffers to one slot."""

    def __init__(
        self,
        simplifier: Simplifier,
        env: Mapping[Var, Affine],
        rings: Mapping[Buffer, Buffer],
        slot: Affine,
    ) -> None:
        self.simplifier = simplifier
        self.env = env
        self.rings = rings
        self.slot = slot
        self.places: set[tuple[Buffer, Expr]] = set()
        self._loads: dict[Load, Expr] = {}

    def visit_Load(self, node: Load) -> Expr:
        """Move a load."""
        new = self._loads.get(node)
        if new is None:
            index = self._index(node.buffer, node.indices[0])
            new = Load(self.rings.get(node.buffer, node.buffer), (index,))
            new = node if new.buffer is node.buffer and index is node.indices[0] else new
            self._loads[node] = new
        return new

    def visit_Store(self, node: Store) -> Stmt:
        """Move a store."""
        index = self._index(node.buffer, node.indices[0])
        value = self.rewrite(node.value)
        return Store(self.rings.get(node.buffer, node.buffer), (index,), value)

    def visit_Var(self, node: Var) -> Expr:
        """Replace a variable that stands outside an index."""
        form = self.env.get(node)
        return node if form is None else self.simplifier.expr(form)

    def visit_If(self, node: If) -> Stmt:
        """Simplify the condition anew."""
        cond = self.simplifier.simplify(self.rewrite(node.cond))
        other = self.rewrite(node.other) if node.other is not None else None
        return If(cond, self.rewrite(node.then), other)

    def visit_IfThenElse(self, node: IfThenElse) -> Expr:
        """Simplify the condition anew."""
        cond = self.simplifier.simplify(self.rewrite(node.cond))
        return IfThenElse.fold(cond, self.rewrite(node.then), self.rewrite(node.other))

    def _index(self, buffer: Buffer, index: Expr) -> Expr:
        if isinstance(index, Ramp):
            return Ramp(self._index(buffer, index.base), index.stride, index.lanes)
        form = self.simplifier.form(self.rewrite_inside(index), self.env)
        ring = self.rings.get(buffer)
        if ring is None:
            return self.simplifier.expr(form)
        form = self.simplifier.combine([(self.slot, _padded_size(buffer)), (form, 1)])
        place = self.simplifier.expr(form)
        self.places.add((ring, place))
        return place

    def rewrite_inside(self, index: Expr) -> Expr:
        """Move loads inside an index; a plain index has none and stays the object it is."""
        form = self.simplifier.known_form(index)
        return index if form is not None and form.is_plain else self.rewrite(index)


class _ToCopies(Rewriter):
    """Makes stores of what is just loaded from global memory asynchronous."""

    def __init__(self, simplifier: Simplifier) -> None:
        self.simplifier = simplifier

    def visit_Store(self, node: Store) -> Stmt:
        """Copy, or where a condition guards the load, copy or store what stands for it."""
        value = node.value
        if isinstance(value, IfThenElse):
            copy = self._copy(node, value.then)
            if copy is None:
                return node
            return If(value.cond, copy, Store(node.buffer, node.indices, value.other))
        return self._copy(node, value) or node

    def _copy(self, node: Store, value: Expr) -> AsyncCopy | None:
        if not isinstance(value, Load) or value.buffer.scope != "global":
            return None
        if element_of(value.buffer.dtype) != element_of(node.buffer.dtype):
            return None
        size = lanes_of(value.dtype) * bits_of(value.dtype) // 8
        to, source = self._start(node.indices[0]), self._start(value.indices[0])
        if to is None or source is None or size not in COPIED_BYTES:
            return None
        return AsyncCopy(node.buffer, to, value.buffer, source, size)

    def _start(self, index: Expr) -> Expr | None:
        """Return the first element of an index, None if its elements are not aligned together."""
        if not isinstance(index, Ramp):
            return index
        form = self.simplifier.form_of(index.base)
        if index.stride != 1 or any(k % index.lanes for k in (form.const, *form.terms.values())):
            return None
        return index.base


class _Reallocate(Rewriter):
    """Allocates rings in place of the buffers that they stand for."""

    def __init__(self, rings: Mapping[Buffer, Buffer]) -> None:
        self.rings = rings

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Allocate the ring."""
        body = self.rewrite(node.body)
        return Allocate(self.rings.get(node.buffer, node.buffer), body)

    def visit_Store(self, node: Store) -> Stmt:
        """Keep a store: no allocation is below it."""
        return node


def _padded_size(buffer: Buffer) -> int:
    """Return the elements of one slot: as many as keep the next slot aligned."""
    step = max(ALIGNMENT_BYTES * 8 // max(bits_of(buffer.dtype), 8), 1)
    size = prod(known(buffer.shape, f"slots of {buffer.name}"))
    return -(-size // step) * step
