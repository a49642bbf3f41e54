"""Virtual threads become copies of statements, interleaved: one thread does the work of several.

A loop bound to a virtual thread is pushed inwards, through loops and sequences, to the single
statements that depend on it, and written out there. Private buffers that differ between virtual
threads get a copy for each; what is shared is computed once.
"""

from __future__ import annotations

from itertools import product as tuples
from math import prod

from autotune.ir.address import Address, addresses_in
from autotune.ir.analysis_affine import Affine
from autotune.ir.expr import Expr, Load, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import (
    Allocate,
    Buffer,
    Evaluate,
    For,
    ForKind,
    If,
    LetStmt,
    Stmt,
    Store,
    seq,
)
from autotune.ir.visitor import Rewriter, StmtRewriter, StmtVisitor
from autotune.lowering.extents import constant_iterations, known
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.instances import Templates
from autotune.lowering.passes.uses import Uses

# Copies of a statement that are written out; more than that stay a loop.
MOST_PER_THREAD = 15
MOST_COPIES = 256

Active = tuple[For, ...]


def inject_vthreads(stmt: Stmt, draft: Draft) -> Stmt:
    """Turns virtual threads into interleaved copies of the statements that depend on them."""
    simplifier = draft.simplifier
    copied = _find_copied(stmt, Uses(simplifier))
    if copied is None:
        return stmt
    split = _SplitBuffers(simplifier, copied).rewrite(stmt)
    return _Injector(simplifier).rewrite(split)


def _find_copied(stmt: Stmt, uses: Uses) -> dict[Buffer, list[For]] | None:
    """Return the buffers that differ between virtual threads; None if there are no such."""
    scan = _Scan(uses)
    scan.visit(stmt)
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


class _Scan(StmtVisitor):
    """Notes all stores, and for each buffer the virtual threads around its allocation."""

    def __init__(self, uses: Uses) -> None:
        self.uses = uses
        self.any_vthread = False
        self.inside: dict[Buffer, Active] = {}
        self.stores: list[tuple[Buffer, frozenset[Var], frozenset[Buffer]]] = []
        self._active: Active = ()
        self._conditions: frozenset[Expr] = frozenset()

    def visit_For(self, node: For) -> None:
        """Note a virtual thread."""
        outer = self._active
        if node.kind is ForKind.VTHREAD:
            self.any_vthread = True
            self._active = (*outer, node)
        self.visit(node.body)
        self._active = outer

    def visit_Allocate(self, node: Allocate) -> None:
        """Note the virtual threads around an allocation."""
        self.inside[node.buffer] = self._active
        self.visit(node.body)

    def visit_If(self, node: If) -> None:
        """Visit both branches under the condition."""
        self._under(node.cond, node.then, node.other)

    def visit_LetStmt(self, node: LetStmt) -> None:
        """Visit the body, which depends on the value."""
        self._under(node.value, node.body)

    def _under(self, condition: Expr, *stmts: Stmt | None) -> None:
        outer = self._conditions
        self._conditions = outer | {condition}
        for stmt in stmts:
            if stmt is not None:
                self.visit(stmt)
        self._conditions = outer

    def visit_Store(self, node: Store) -> None:
        """Note a store, and all that it depends on."""
        # Shared memory is indexed by what all virtual threads want; it differs between them only
        # if they store different values in one place.
        where = node.indices if node.buffer.scope == "local" else ()
        parts = [self.uses.of(each) for each in (node.value, *where, *self._conditions)]
        found = frozenset().union(*[part.vars for part in parts])
        read = frozenset().union(*[part.buffers for part in parts])
        self.stores.append((node.buffer, found, read))

    def visit_Evaluate(self, node: Evaluate) -> None:
        """Note what a call writes by addresses, and all that it depends on."""
        parts = [self.uses.of(each) for each in (node.value, *self._conditions)]
        found = frozenset().union(*[part.vars for part in parts])
        read = frozenset().union(*[part.buffers for part in parts])
        for each in addresses_in(node.value):
            if "w" in each.access:
                self.stores.append((each.buffer, found, read))


class _SplitBuffers(Rewriter):
    """Allocates copied buffers for all copies, and moves every access to its copy."""

    def __init__(self, simplifier: Simplifier, copied: dict[Buffer, list[For]]) -> None:
        self.simplifier = simplifier
        self.places: dict[Buffer, tuple[Buffer, Affine]] = {}
        self._loads: dict[Load, Load] = {}
        for buffer, loops in copied.items():
            size = prod(known(buffer.shape, f"vthread: copies of {buffer.name}"))
            offsets = []
            for loop in reversed(loops):
                offsets.append((simplifier.var(loop.var), size))
                size *= vthread_count(loop)
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

    def visit_Address(self, node: Address) -> Expr:
        """Move an address."""
        index, place = self.rewrite(node.index), self.places.get(node.buffer)
        if place is None:
            return node.at(node.buffer, index)
        return node.at(place[0], self._moved(index, place[1]))

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


class _Injector(StmtRewriter):
    """Pushes the loops of virtual threads inwards; ``active`` are those around a statement."""

    def __init__(self, simplifier: Simplifier) -> None:
        self.uses = Uses(simplifier)
        self.templates = Templates(simplifier, lambda loop: False)
        self.active: Active = ()

    def inside(self, stmt: Stmt, active: Active) -> Stmt:
        """Returns ``stmt`` for all combinations of the virtual threads ``active``."""
        outer, self.active = self.active, active
        new = self.rewrite(stmt)
        self.active = outer
        return new

    def visit_Stmt(self, node: Stmt) -> Stmt:
        """Write a single statement out."""
        return self._written_out(node, self.active)

    visit_Store = visit_LetStmt = visit_Stmt

    def visit_For(self, node: For) -> Stmt:
        """Take a virtual thread away; enter any other loop."""
        if node.kind is ForKind.VTHREAD:
            return self.inside(node.body, (*self.active, node))
        return super().visit_For(node)

    def visit_If(self, node: If) -> Stmt:
        """Enter a branch, or write it out where the virtual threads take different sides."""
        if not self._touching(node.cond, self.active):
            return super().visit_If(node)
        other = self.inside(node.other, ()) if node.other is not None else None
        return self._written_out(If(node.cond, self.inside(node.then, ()), other), self.active)

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
                extent = vthread_count(loops[first - 1])
                if extent > MOST_PER_THREAD or copies * extent > MOST_COPIES:
                    break
                first -= 1
                copies *= extent
        free = tuple([loop.var for loop in loops[first:]])
        make = self.templates.copies(stmt, free)
        ranges = [range(vthread_count(loop)) for loop in loops[first:]]
        result = seq(*[new for values in tuples(*ranges) for new in make(values)])
        for loop in reversed(loops[:first]):
            result = For(loop.var, loop.extent, ForKind.SERIAL, result)
        return result


def vthread_count(loop: For) -> int:
    """Return the extent of the loop of a virtual thread, which is constant."""
    return constant_iterations(loop, "vthread")
