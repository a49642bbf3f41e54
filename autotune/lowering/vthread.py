"""Virtual threads become copies of statements, interleaved: one thread does the work of several.

A loop bound to a virtual thread is pushed inwards, through loops and sequences, to the single
statements that depend on it, and written out there. Private buffers that differ between virtual
threads get a copy for each; what is shared is computed once.
"""

from __future__ import annotations

from itertools import product as tuples
from math import prod

from autotune.ir.analysis_affine import Affine
from autotune.ir.expr import Expr, Load, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import (
    Allocate,
    Buffer,
    For,
    ForKind,
    If,
    LetStmt,
    Seq,
    Stmt,
    Store,
    seq,
)
from autotune.ir.visitor import Rewriter
from autotune.lowering.extents import constant_iterations, known
from autotune.lowering.instances import Templates
from autotune.lowering.uses import Uses

# Copies of a statement that are written out; more than that stay a loop.
MOST_PER_THREAD = 15
MOST_COPIES = 256

Active = tuple[For, ...]


def inject_vthreads(stmt: Stmt, simplifier: Simplifier) -> Stmt:
    """Return the statement without virtual threads."""
    uses = Uses(simplifier)
    copied = _find_copied(stmt, uses)
    if copied is None:
        return stmt
    split = _SplitBuffers(simplifier, copied).rewrite(stmt)
    return _Injector(simplifier).rewrite(split, ())


def _find_copied(stmt: Stmt, uses: Uses) -> dict[Buffer, list[For]] | None:
    """Return the buffers that differ between virtual threads; None if there are no such."""
    scan = _Scan(uses)
    scan.visit(stmt, (), frozenset())
    if not scan.any_vthread:
        return None
    touched: dict[Buffer, set[Var]] = {buffer: set() for buffer in scan.inside}
    changed = True
    while changed:
        changed = False
        for buffer, found, read in scan.stores:
            if buffer not in touched:
                continue
            new = set(found).union(*[touched[b] for b in read if b in touched])
            new &= {loop.var for loop in scan.inside[buffer]}
            if not new <= touched[buffer]:
                touched[buffer] |= new
                changed = True
    return {
        buffer: [loop for loop in scan.inside[buffer] if loop.var in found]
        for buffer, found in touched.items()
        if found
    }


class _Scan:
    """Notes all stores, and for each buffer the virtual threads around its allocation."""

    def __init__(self, uses: Uses) -> None:
        self.uses = uses
        self.any_vthread = False
        self.inside: dict[Buffer, Active] = {}
        self.stores: list[tuple[Buffer, frozenset[Var], frozenset[Buffer]]] = []

    def visit(self, stmt: Stmt, active: Active, conditions: frozenset[Expr]) -> None:
        match stmt:
            case For():
                if stmt.kind is ForKind.VTHREAD:
                    self.any_vthread = True
                    active = (*active, stmt)
                self.visit(stmt.body, active, conditions)
            case Seq(stmts):
                for each in stmts:
                    self.visit(each, active, conditions)
            case Allocate(buffer, body):
                self.inside[buffer] = active
                self.visit(body, active, conditions)
            case If(cond, then, other):
                self.visit(then, active, conditions | {cond})
                if other is not None:
                    self.visit(other, active, conditions | {cond})
            case LetStmt(_, value, body):
                self.visit(body, active, conditions | {value})
            case Store(buffer, (index,), value):
                # Shared memory is indexed by what all virtual threads want; it differs between
                # them only if they store different values in one place.
                where = (index,) if buffer.scope == "local" else ()
                parts = [self.uses.of(each) for each in (value, *where, *conditions)]
                found = frozenset().union(*[part.vars for part in parts])
                read = frozenset().union(*[part.buffers for part in parts])
                self.stores.append((buffer, found, read))
            case _:
                pass


class _SplitBuffers(Rewriter):
    """Gives copied buffers room for all copies, and moves every access to the copy it means."""

    def __init__(self, simplifier: Simplifier, copied: dict[Buffer, list[For]]) -> None:
        self.simplifier = simplifier
        self.places: dict[Buffer, tuple[Buffer, Affine]] = {}
        self._loads: dict[Load, Load] = {}
        for buffer, loops in copied.items():
            size = prod(known(buffer.shape, f"vthread: copies of {buffer.name}"))
            offsets = []
            for loop in reversed(loops):
                offsets.append((simplifier.var(loop.var), size))
                size *= extent_of(loop)
            new = Buffer(buffer.name, (size,), buffer.dtype, buffer.scope)
            self.places[buffer] = (new, simplifier.combine(offsets))

    def _moved(self, index: Expr, offset: Affine) -> Expr:
        return self.simplifier.expr(self.simplifier.add(offset, self.simplifier.form_of(index)))

    def visit_Load(self, node: Load) -> Expr:
        """Move a load."""
        place = self.places.get(node.buffer)
        if place is None:
            return super().visit_Load(node)
        load = self._loads.get(node)
        if load is None:
            index = self.rewrite(node.indices[0])
            load = self._loads[node] = Load(place[0], (self._moved(index, place[1]),))
        return load

    def visit_Store(self, node: Store) -> Stmt:
        """Move a store."""
        place = self.places.get(node.buffer)
        if place is None:
            return super().visit_Store(node)
        index = self.rewrite(node.indices[0])
        return Store(place[0], (self._moved(index, place[1]),), self.rewrite(node.value))

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Allocate all copies at once."""
        body = self.rewrite(node.body)
        place = self.places.get(node.buffer)
        return Allocate(node.buffer if place is None else place[0], body)


class _Injector:
    """Pushes the loops of virtual threads inwards."""

    def __init__(self, simplifier: Simplifier) -> None:
        self.uses = Uses(simplifier)
        self.templates = Templates(simplifier, lambda loop: False)

    def rewrite(self, stmt: Stmt, active: Active) -> Stmt:
        """Return ``stmt`` for all combinations of the virtual threads around it."""
        match stmt:
            case For() if stmt.kind is ForKind.VTHREAD:
                return self.rewrite(stmt.body, (*active, stmt))
            case For():
                body = self.rewrite(stmt.body, active)
                if body is stmt.body:
                    return stmt
                return stmt.with_body(body)
            case Seq(stmts):
                return seq(*[self.rewrite(each, active) for each in stmts])
            case Allocate(buffer, body):
                return Allocate(buffer, self.rewrite(body, active))
            case If(cond, then, other):
                differs = bool(self._touching(cond, active))
                below = () if differs else active
                rest = self.rewrite(other, below) if other is not None else None
                new = If(cond, self.rewrite(then, below), rest)
                return self._written_out(new, active) if differs else new
            case _:
                return self._written_out(stmt, active)

    def _touching(self, node: Expr | Stmt, active: Active) -> list[For]:
        if not active:
            return []
        found = self.uses.of(node).vars
        return [loop for loop in active if loop.var in found]

    def _written_out(self, stmt: Stmt, active: Active) -> Stmt:
        loops = self._touching(stmt, active)
        if not loops:
            return stmt
        first = len(loops)
        copies = 1
        if not self.uses.of(stmt).has_loops:
            while first:
                extent = extent_of(loops[first - 1])
                if extent > MOST_PER_THREAD or copies * extent > MOST_COPIES:
                    break
                first -= 1
                copies *= extent
        free = tuple([loop.var for loop in loops[first:]])
        make = self.templates.copies(stmt, free)
        ranges = [range(extent_of(loop)) for loop in loops[first:]]
        result = seq(*[new for values in tuples(*ranges) for new in make(values)])
        for loop in reversed(loops[:first]):
            result = For(loop.var, loop.extent, ForKind.SERIAL, result)
        return result


def extent_of(loop: For) -> int:
    """Return the extent of the loop of a virtual thread, which is constant."""
    return constant_iterations(loop, "vthread")
