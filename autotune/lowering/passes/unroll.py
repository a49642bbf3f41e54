"""Unrolling: loops marked so, and short inner loops as far as ``auto_unroll_max_step`` allows.

The count follows AutoTVM's, so that its knob values keep their meaning: a loop is unrolled if it
holds no loop that is not, and its iterations times the stores inside are at most the limit.
``unroll_explicit`` decides whether the loops are written out here, or marked for the compiler.

Loops over threads end here: the pragmas on them have been read, and the launch runs them.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from functools import reduce

from autotune.ir.address import Address
from autotune.ir.expr import Expr, Load, Ramp, Var
from autotune.ir.simplify import Simplifier
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
from autotune.ir.visitor import StmtRewriter, Visitor
from autotune.lowering.pass_context import PassContext
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.instances import Templates
from autotune.utils.assert_never import assert_never

MAX_STEP = "auto_unroll_max_step"
EXPLICIT = "unroll_explicit"
MOST_DEPTH = 8
# More stores than this are not written out even where it was asked for: neither we nor the
# compiler would come to an end. The loop is marked for the compiler instead.
MOST_STEPS = 16384
# A loop over a private array of more statements is the compiler's affair: registers are fewer.
MOST_REGISTER_STEPS = 1024


@dataclass(frozen=True)
class _Count:
    """The size of a statement: stores, depth of unrolled loops, and other loops."""

    steps: int = 0
    depth: int = 0
    loops: int = 0

    def beside(self, other: _Count) -> _Count:
        """Return the size of both statements, one after the other."""
        depth, loops = max(self.depth, other.depth), max(self.loops, other.loops)
        return _Count(self.steps + other.steps, depth, loops)

    def in_loop(self) -> _Count:
        """Return the size of a loop around the statement, which is not unrolled."""
        return replace(self, loops=self.loops + 1)


@dataclass(frozen=True)
class _Setting:
    """The settings of the pragmas around a statement."""

    max_step: int = 0
    explicit: bool = True


def unroll_loops(stmt: Stmt, draft: Draft) -> Stmt:
    """Unrolls loops that are marked or short enough: written out, or marked for the compiler."""
    marked = _Marker(draft)
    context = PassContext.current()
    stmt, _ = marked.visit(stmt, _Setting(context.max_step, context.explicit))
    if not marked.written_out:
        return stmt
    return _WriteOut(draft.simplifier, marked.written_out).rewrite(stmt)


class _WriteOut(StmtRewriter):
    """Replaces the outermost unrolled loops by their iterations."""

    def __init__(self, simplifier: Simplifier, loops: Set[For]) -> None:
        self.loops = loops
        self.templates = Templates(simplifier, lambda loop: loop in loops)

    def visit_For(self, node: For) -> Stmt:
        """Unroll a loop, or visit its body."""
        if node in self.loops:
            return seq(*self.templates.copies(node, ())(()))
        return super().visit_For(node)


class _Marker:
    """Decides about every loop, from the inside out."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.written_out: set[For] = set()

    def visit(self, stmt: Stmt, setting: _Setting) -> tuple[Stmt, _Count]:
        """Return the statement with its unrolled loops marked, and what it amounts to."""
        match one_of_all(stmt):
            case For() as loop:
                return self._loop(loop, _inside(loop, setting))
            case Seq(stmts):
                parts = [self.visit(each, setting) for each in stmts]
                total = reduce(_Count.beside, [count for _, count in parts], _Count())
                return seq(*[new for new, _ in parts]), total
            case If(cond, then, other):
                new, count = self.visit(then, setting)
                if other is None:
                    return If(cond, new), count
                rest, more = self.visit(other, setting)
                return If(cond, new, rest), count.beside(more)
            case Allocate(buffer, body):
                new, count = self.visit(body, setting)
                return Allocate(buffer, new), count
            case LetStmt(var, value, body):
                new, count = self.visit(body, setting)
                return LetStmt(var, value, new), count
            case While(cond, body):
                new, count = self.visit(body, setting)
                return While(cond, new), count.in_loop()
            case Store() | AsyncCopy() | Evaluate():
                return stmt, _Count(1)
            case Barrier() | AsyncCommit() | AsyncWait():
                return stmt, _Count()
            case other:
                assert_never(other)

    def _picks_registers(self, loop: For, body: Stmt, steps: int) -> bool:
        """Whether a plain loop of a GPU runs over elements of a private array.

        Registers have no addresses: were the compiler to keep the loop, the array would lie in
        memory, many times slower.
        """
        if not self.draft.gpu or loop.kind is not ForKind.SERIAL or steps > MOST_REGISTER_STEPS:
            return False
        picks = _Picks(loop.var, self.draft.simplifier)
        picks.visit(body)
        return picks.found

    def _loop(self, stmt: For, setting: _Setting) -> tuple[Stmt, _Count]:
        body, count = self.visit(stmt.body, setting)
        extent = stmt.iterations
        if extent == 1 or stmt.kind is ForKind.THREAD:
            return body, count
        if extent is None:
            return stmt.with_body(body), count.in_loop()
        if stmt.kind is ForKind.VECTORIZED:
            return stmt.with_body(body), count
        steps = count.steps * extent
        unrolled = stmt.kind is ForKind.UNROLLED
        if stmt.kind is ForKind.SERIAL and count.loops == 0 and count.depth <= MOST_DEPTH:
            unrolled = steps <= setting.max_step
        if unrolled:
            loop = For(stmt.var, stmt.extent, ForKind.UNROLLED, body)
            if setting.explicit and steps <= MOST_STEPS:
                self.written_out.add(loop)
            return loop, _Count(steps, count.depth + 1, count.loops)
        if self._picks_registers(stmt, body, steps):
            loop = For(stmt.var, stmt.extent, ForKind.UNROLLED, body, None, stmt.annotations)
            return loop, replace(count, steps=steps).in_loop()
        return stmt.with_body(body), count.in_loop()


class _Picks(Visitor):
    """Looks for elements of private arrays that a variable picks."""

    def __init__(self, var: Var, simplifier: Simplifier) -> None:
        self.var = var
        self.simplifier = simplifier
        self.found = False

    def visit_Load(self, node: Load) -> None:
        """Visit the index of a load."""
        self._look(node.buffer, node.indices[0])

    def visit_Store(self, node: Store) -> None:
        """Visit the index of a store, and its value."""
        self._look(node.buffer, node.indices[0])
        self.visit(node.value)

    def visit_Address(self, node: Address) -> None:
        """Visit the index of an address."""
        self._look(node.buffer, node.index)

    def _look(self, buffer: Buffer, index: Expr) -> None:
        if buffer.scope == "local":
            start = index.base if isinstance(index, Ramp) else index
            self.found = self.found or self.var in self.simplifier.form_of(start).vars


def _inside(loop: For, outer: _Setting) -> _Setting:
    """Return the setting inside a loop, whose own pragmas hold for it too."""
    if not loop.annotations:
        return outer
    step = int(loop.annotations.get(MAX_STEP, outer.max_step))
    explicit = bool(loop.annotations.get(EXPLICIT, outer.explicit))
    return _Setting(step, explicit)
