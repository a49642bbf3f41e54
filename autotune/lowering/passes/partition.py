"""Loops in parts: where a condition begins or ceases to hold, a loop ends and the next begins.

Padding and tiles that do not divide an axis leave conditions in inner loops, where they keep a
compiler from vectors and take longer than the work. (With AVX-512, GCC 12 also reads a vector past
the end of an array for ``for i in 16: if i < 13: ...``.) Most of them hold for all iterations but
a few at the ends, and these are known::

    for i in 9: a[i] = b[i - 1] if 1 <= i and i < 8 else 0
    ->  a[0] = 0;  for i in 7: a[i + 1] = b[i];  a[8] = 0

On a CPU only: a GPU's threads take their sides of a condition together, at no cost for the text.
The idea is old, and called index set splitting (Wolfe, "High Performance Compilers for Parallel
Computing", 1996).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise

from autotune.ir.analysis_affine import Affine, AtomKind, constant, shift_affine
from autotune.ir.expr import GE, LT, CompareOp, IntImm, Not, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import (
    Allocate,
    Evaluate,
    For,
    ForKind,
    If,
    LetStmt,
    Seq,
    Stmt,
    Store,
    seq,
)
from autotune.ir.visitor import StmtRewriter, Visitor
from autotune.lowering.passes.draft import Draft

# Kinds of loops that are taken apart; one that is written out has no conditions left anyway.
_KINDS = (ForKind.SERIAL, ForKind.VECTORIZED)
# Parts of one loop, and stores that one store may become in parts of loops around it.
_MOST_PARTS, _MOST_STORES = 4, 32


def partition_loops(stmt: Stmt, draft: Draft) -> Stmt:
    """Takes loops apart where a condition begins or ceases to hold, on a CPU."""
    if draft.gpu or not _collected(stmt).comparisons:
        return stmt
    return _Partition(draft.simplifier).rewrite(stmt)


class _Collector(Visitor):
    """Collects comparisons, the variables of loops, and what forbids to split the loops."""

    def __init__(self) -> None:
        self.comparisons: dict[CompareOp, None] = {}
        self.loops: set[Var] = set()
        self.stores = 0
        self.is_scope = False

    def visit_CompareOp(self, node: CompareOp) -> None:
        """Note a comparison."""
        self.comparisons[node] = None

    def visit_For(self, node: For) -> None:
        """Note a loop."""
        self.loops.add(node.var)
        self.is_scope = self.is_scope or node.iterations is None
        self.visit(node.body)

    def visit_Store(self, node: Store) -> None:
        """Count a store."""
        self.stores += 1
        self.visit(node.value)

    def visit_Allocate(self, node: Allocate) -> None:
        """Note a scope: each part would need one of its own."""
        self.is_scope = True
        self.visit(node.body)

    def visit_LetStmt(self, node: LetStmt) -> None:
        """Note a scope."""
        self.is_scope = True
        self.visit(node.body)


def _collected(stmt: Stmt) -> _Collector:
    collector = _Collector()
    collector.visit(stmt)
    return collector


class _Partition(StmtRewriter):
    """Takes the loops of one kernel apart, from the outside in."""

    def __init__(self, simplifier: Simplifier) -> None:
        self.simplifier = simplifier
        self._parts_around = 1

    def visit_For(self, node: For) -> Stmt:
        """Take a loop apart, then those inside of each part."""
        ends = self._ends(node)
        if len(ends) == 1:
            return super().visit_For(node)
        around, self._parts_around = self._parts_around, self._parts_around * len(ends)
        parts = [self.rewrite(self._part(node, *each)) for each in pairwise([0, *ends])]
        self._parts_around = around
        return seq(*parts)

    def _ends(self, node: For) -> list[int]:
        """Return where the parts of a loop end, the end of the loop last."""
        count = node.iterations
        if count is None or count < 2 or node.kind not in _KINDS:
            return [count or 0]
        inside = _collected(node.body)
        if inside.is_scope:
            return [count]
        found = {
            end for each in inside.comparisons for end in self._turns(each, node, inside.loops)
        }
        ends = [*sorted(found - {0, count}), count]
        stores = self._parts_around * len(ends) * inside.stores
        return ends if len(ends) <= _MOST_PARTS and stores <= _MOST_STORES else [count]

    def _turns(self, node: CompareOp, loop: For, inner: set[Var]) -> list[int]:
        """Return the iterations from which on a comparison always holds, or never, or may.

        There are none where it depends on more than the loop and those inside.
        """
        form = self._difference(node)
        if form is None or loop.var not in form.vars or not form.vars <= {loop.var, *inner}:
            return []
        step = 0
        for atom, k in form.terms.items():
            if loop.var in atom.vars:
                if atom.kind is not AtomKind.VAR:
                    return []
                step = k
        rest = {atom: k for atom, k in form.terms.items() if loop.var not in atom.vars}
        steps = range(loop.iterations or 0)

        def turn(end: float) -> int:
            """The first iteration on whose side of 0 a value is when it ends."""
            return bisect_left(steps, True, key=lambda i: (end + step * i < 0) is (step < 0))

        return [turn(end) for end in Affine(rest, form.const).bounds]

    def _difference(self, node: CompareOp) -> Affine | None:
        """Return ``a - b`` of ``a < b`` or ``a >= b``; None of other or not affine ones."""
        if not isinstance(node, LT | GE):
            return None
        space = self.simplifier
        left, right = space.known_form(node.a), space.known_form(node.b)
        return None if left is None or right is None else space.sub(left, right)

    def _part(self, node: For, start: int, end: int) -> Stmt:
        """Return a loop from one of its iterations up to another."""
        if end - start == 1 and not node.annotations:
            return _At(self.simplifier, {node.var: constant(start)}).rewrite(node.body)
        var = Var(node.var.name, node.var.dtype, node.var.axis)
        form = shift_affine(self.simplifier.bind(var, 0, end - start - 1), start)
        body = _At(self.simplifier, {node.var: form}).rewrite(node.body)
        if not _listed(body):
            return body
        return For(var, end - start, node.kind, body, node.thread, node.annotations)


class _At(StmtRewriter):
    """Copies statements with variables replaced; conditions that are decided then are gone."""

    def __init__(self, simplifier: Simplifier, values: Mapping[Var, Affine]) -> None:
        self.simplifier = simplifier
        self.values = values

    def visit_Stmt(self, node: Stmt) -> Stmt:
        """Copy a single statement."""
        match node:
            case Store(buffer, (index,), value):
                at = self.simplifier.simplify(index, self.values)
                return Store(buffer, (at,), self.simplifier.simplify(value, self.values))
            case Evaluate(value):
                return Evaluate(self.simplifier.simplify(value, self.values))
            case _:
                return node

    visit_Store = visit_Stmt

    def visit_For(self, node: For) -> Stmt:
        """Copy a loop; one around nothing is nothing."""
        body = self.rewrite(node.body)
        return node.with_body(body) if _listed(body) else body

    def visit_If(self, node: If) -> Stmt:
        """Copy the branches that may be taken."""
        test = self.simplifier.simplify(node.cond, self.values)
        then = self.rewrite(node.then)
        other = self.rewrite(node.other) if node.other is not None else seq()
        if isinstance(test, IntImm):
            return then if test.value else other
        if not _listed(then):
            return If(Not.fold(test), other) if _listed(other) else then
        return If(test, then, other if _listed(other) else None)


def _listed(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the statements of a sequence, which may have none."""
    return stmt.stmts if isinstance(stmt, Seq) else (stmt,)
