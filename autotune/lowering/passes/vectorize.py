"""Vector loops: wide loads and stores on a GPU, loops for the compiler's SIMD on a CPU.

The loop is first pushed inwards to the single statements. On a GPU a store whose lanes lie side by
side and start at a multiple of the width becomes one store of a vector; any other becomes as many
scalar stores as there are lanes. On a CPU the innermost loop stays, marked.

On a GPU results are written so too where nobody asked for it: a loop in which a thread stores
neighbours to global memory, and nothing else, needs a quarter of the instructions so.
"""

from __future__ import annotations

from autotune.ir.analysis_affine import Affine, AtomKind, constant
from autotune.ir.dtype import bits_of, lanes_of, with_lanes
from autotune.ir.expr import (
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Conditional,
    Expr,
    Load,
    LogicalOp,
    Ramp,
    Var,
)
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Allocate, For, ForKind, If, Seq, Stmt, Store, seq
from autotune.ir.structure import same, walk_statements
from autotune.ir.visitor import StmtRewriter, Visitor
from autotune.lowering.extents import constant_iterations
from autotune.lowering.pass_context import PassContext
from autotune.lowering.passes.buffer_accesses import read_buffers
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.instances import Templates
from autotune.lowering.passes.uses import Uses

VECTOR_BITS = 128
WIDTHS = (16, 8, 4, 2)
# More scalar copies than this of one statement stay a loop.
MOST_COPIES = 16


def vectorize_loops(stmt: Stmt, draft: Draft) -> Stmt:
    """Carries out vector loops: by wide loads and stores on a GPU, as marked loops on a CPU."""
    if not draft.gpu and not _holds_vector_loop(stmt):
        return stmt
    return _Vectorizer(draft.simplifier, draft.gpu).rewrite(stmt)


def _holds_vector_loop(stmt: Stmt) -> bool:
    loops = (each for each in walk_statements(stmt) if isinstance(each, For))
    return any(loop.kind is ForKind.VECTORIZED for loop in loops)


class _Vectorizer(StmtRewriter):
    """Carries out the vector loops of one kernel."""

    def __init__(self, simplifier: Simplifier, gpu: bool) -> None:
        self.simplifier = simplifier
        self.gpu = gpu
        self.uses = Uses(simplifier)
        self.templates = Templates(simplifier, lambda loop: False)

    def visit_For(self, node: For) -> Stmt:
        """Carry out a vector loop after those inside it."""
        if node.kind is not ForKind.VECTORIZED:
            return self._written(super().visit_For(node))
        body = self.rewrite(node.body)
        allocates = any(isinstance(each, Allocate) for each in walk_statements(body))
        if allocates or not PassContext.current().vectorizes:
            # Each lane needs a buffer of its own, which only a plain loop gives it.
            return For(node.var, node.extent, ForKind.SERIAL, body)
        return _Pushed(self, node.var, constant_iterations(node, "vectorize")).rewrite(body)

    def leaf(self, stmt: Stmt, var: Var, extent: int) -> Stmt:
        """Returns one statement for all values of ``var``."""
        if isinstance(stmt, Store) and self.gpu:
            return self._wide_store(stmt, var, extent)
        return self._scalars(stmt, var, extent)

    def _scalars(self, stmt: Stmt, var: Var, extent: int) -> Stmt:
        if not self.gpu:
            return For(var, extent, ForKind.VECTORIZED, stmt)
        if extent > MOST_COPIES:
            return For(var, extent, ForKind.SERIAL, stmt)
        make = self.templates.copies(stmt, (var,))
        return seq(*[new for i in range(extent) for new in make((i,))])

    def _written(self, loop: Stmt) -> Stmt:
        """Return a loop that only stores results side by side with wide stores in its place."""
        plain = isinstance(loop, For) and loop.kind is ForKind.SERIAL and not loop.annotations
        if not self.gpu or not isinstance(loop, For) or not plain or loop.iterations is None:
            return loop
        if not PassContext.current().vectorizes:
            return loop
        stmts = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
        results = [each for each in stmts if isinstance(each, Store)]
        if len(results) < len(stmts) or any(each.buffer.scope != "global" for each in results):
            return loop
        if not {each.buffer for each in results}.isdisjoint(read_buffers(loop.body)):
            return loop
        wide = [self._wide(each, loop.var, loop.iterations) for each in results]
        done = [each for each in wide if each is not None]
        return seq(*done) if len(done) == len(results) else loop

    def _wide_store(self, stmt: Store, var: Var, extent: int) -> Stmt:
        wide = self._wide(stmt, var, extent)
        return self._scalars(stmt, var, extent) if wide is None else wide

    def _wide(self, stmt: Store, var: Var, extent: int) -> Stmt | None:
        """Return a store for all values of ``var`` as stores of vectors; None if it is none."""
        index = self.simplifier.form_of(stmt.indices[0])
        for lanes in WIDTHS:
            if extent % lanes or not _is_aligned(index, var, lanes):
                continue
            if lanes * _widest(stmt) > VECTOR_BITS:
                continue
            vectors = _Lanes(self.simplifier, self.uses, var, lanes, extent)
            value = vectors.of(stmt.value)
            if value is None:
                break
            ramp = vectors.of(stmt.indices[0])
            assert ramp is not None
            store = Store(stmt.buffer, (ramp,), _spread(value, lanes))
            return self._chunks(store, var, extent // lanes, lanes)
        return None

    def _chunks(self, store: Store, var: Var, count: int, lanes: int) -> Stmt:
        """Return the wide store for every ``lanes``-th value of ``var``."""
        if count == 1:
            return self._at(store, {var: constant(0)})
        if count <= MOST_COPIES:
            return seq(*[self._at(store, {var: constant(i * lanes)}) for i in range(count)])
        outer = Var(f"{var.name}.outer", "int32", "data")
        form = self.simplifier.bind(outer, 0, count - 1)
        start = self.simplifier.combine([(form, lanes)])
        return For(outer, count, ForKind.SERIAL, self._at(store, {var: start}))

    def _at(self, store: Store, env: dict[Var, Affine]) -> Store:
        index = self.simplifier.simplify(store.indices[0], env)
        return Store(store.buffer, (index,), self.simplifier.simplify(store.value, env))


class _Pushed(StmtRewriter):
    """Makes statements for all values of a variable, the lanes in step: its loop moves inwards."""

    def __init__(self, vectorizer: _Vectorizer, var: Var, extent: int) -> None:
        self.vectorizer = vectorizer
        self.var = var
        self.extent = extent

    def visit_Stmt(self, node: Stmt) -> Stmt:
        """Carry out a single statement, or one that the lanes do not enter together."""
        return self.vectorizer.leaf(node, self.var, self.extent)

    visit_Store = visit_Allocate = visit_LetStmt = visit_While = visit_Stmt

    def visit_If(self, node: If) -> Stmt:
        """Enter a branch where all lanes take the same side."""
        if self.var in self.vectorizer.uses.of(node.cond).vars:
            return self.visit_Stmt(node)
        return super().visit_If(node)

    def visit_For(self, node: For) -> Stmt:
        """Enter a loop that all lanes run as often."""
        if self.var in self.vectorizer.uses.of(node.extent).vars:
            return self.visit_Stmt(node)
        return super().visit_For(node)


def _is_aligned(index: Affine, var: Var, lanes: int) -> bool:
    """Return whether ``var`` counts elements one by one, from a multiple of ``lanes``."""
    if index.const % lanes:
        return False
    seen = False
    for atom, k in index.terms.items():
        if var not in atom.vars:
            if k % lanes:
                return False
        elif atom.kind is not AtomKind.VAR or k != 1:
            return False
        else:
            seen = True
    return seen


def _widest(stmt: Store) -> int:
    """Return the bits of the widest element that a store reads or writes."""
    found = _Widths()
    found.visit(stmt.value)
    return max(bits_of(stmt.buffer.dtype), found.bits, 8)


class _Widths(Visitor):
    def __init__(self) -> None:
        self.bits = 0

    def visit_Load(self, node: Load) -> None:
        self.bits = max(self.bits, bits_of(node.dtype))


class _Lanes:
    """Turns expressions in a variable into vectors over its next values.

    Args:
        simplifier: knows the bounds of the other variables.
        uses: tells which variables an expression reads.
        var: the variable.
        lanes: values of it that form a vector.
        extent: all its values, from 0 on, of which vectors begin at multiples of ``lanes``.
    """

    def __init__(
        self, simplifier: Simplifier, uses: Uses, var: Var, lanes: int, extent: int
    ) -> None:
        self.simplifier = simplifier
        self.uses = uses
        self.var = var
        self.lanes = lanes
        self.extent = extent

    def of(self, expr: Expr) -> Expr | None:
        """Return the vector of an expression; what does not depend on the variable stays a scalar.

        None means that it cannot be done.
        """
        if self.var not in self.uses.of(expr).vars:
            return expr
        if self.simplifier.known_form(expr) is not None:
            return self._ramp(expr)
        match expr:
            case Load(buffer, (index,)):
                inner = self.of(index)
                return None if inner is None else Load(buffer, (inner,))
            case CompareOp() | LogicalOp():
                return None
            case BinaryOp(a, b):
                vectors = self._all(a, b)
                return None if vectors is None else type(expr)(*vectors)
            case Cast(value, dtype):
                inner = self.of(value)
                return None if inner is None else Cast(inner, with_lanes(dtype, self.lanes))
            case Call(name, args, dtype):
                vectors = self._all(*args)
                kind = with_lanes(dtype, self.lanes)
                return None if vectors is None else Call(name, vectors, kind)
            case Conditional(cond, then, other) if self._is_uniform(cond):
                vectors = self._all(then, other)
                return None if vectors is None else type(expr)(cond, *vectors)
            case _:
                return None

    def _is_uniform(self, cond: Expr) -> bool:
        """Return whether a condition is the same in all lanes of each vector."""
        if self.var not in self.uses.of(cond).vars:
            return True
        if self.extent > MOST_COPIES:
            return False
        values = [
            self.simplifier.simplify(cond, {self.var: constant(i)}) for i in range(self.extent)
        ]
        firsts = [values[i // self.lanes * self.lanes] for i in range(self.extent)]
        return all(map(same, values, firsts))

    def _all(self, *parts: Expr) -> tuple[Expr, ...] | None:
        """Returns the vectors of some expressions, scalars spread; None if one has none."""
        made: list[Expr] = []
        for part in parts:
            vector = self.of(part)
            if vector is None:
                return None
            made.append(_spread(vector, self.lanes))
        return tuple(made)

    def _ramp(self, index: Expr) -> Expr | None:
        form = self.simplifier.form_of(index)
        stride = 0
        for atom, k in form.terms.items():
            if self.var in atom.vars:
                if atom.kind is not AtomKind.VAR:
                    return None
                stride = k
        return Ramp(index, stride, self.lanes)


def _spread(value: Expr, lanes: int) -> Expr:
    """Return a vector: the value itself, or a scalar in every lane."""
    return value if lanes_of(value.dtype) > 1 else Broadcast(value, lanes)
