"""Substitutes values for variables of a statement, in constant time for each copy.

Unrolling and virtual threads copy one statement up to a few thousand times in a kernel.
`Templates` analyses the statement once: for each index, how it changes with the variables. A copy
then costs a few dictionary lookups, instead of a simplification of every index. Equal loads of
different copies are one object, as equal indices are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.ir.analysis_affine import Affine, Substitution, constant
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
    Not,
    Ramp,
    Var,
)
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import (
    Allocate,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Evaluate,
    For,
    If,
    LetStmt,
    Seq,
    Stmt,
    Store,
    While,
    one_of_all,
    seq,
)
from autotune.ir.structure import variables
from autotune.lowering.extents import constant_iterations
from autotune.lowering.passes.form_copies import Moved, Values, form_copies, plain_steps
from autotune.utils.assert_never import assert_never

MakeExpr = Callable[[Values], Expr]
MakeStmts = Callable[[Values], list[Stmt]]
# Values of variables, one object for all expressions that ask for them.
Environments = dict[tuple[tuple[Var, ...], Values], Substitution]


class Templates:
    """Makes copies of statements; the analysis of each expression is kept."""

    def __init__(self, simplifier: Simplifier, unrolls: Callable[[For], bool]) -> None:
        self.simplifier = simplifier
        self.unrolls = unrolls
        self._environments: Environments = {}
        self._exprs: dict[tuple[Expr, tuple[Var, ...]], MakeExpr | None] = {}

    def copies(self, stmt: Stmt, free: tuple[Var, ...]) -> MakeStmts:
        """Return the function from values of the variables ``free`` to the copy of ``stmt``.

        Loops inside that are to be unrolled are written out in each copy.
        """
        match one_of_all(stmt):
            case Seq(stmts):
                parts = [self.copies(each, free) for each in stmts]
                return lambda values: [new for part in parts for new in part(values)]
            case For() as loop if self.unrolls(loop):
                return self._unrolled(loop, free)
            case For() as loop:
                return self._loop(loop, free)
            case While(cond, inner):
                make, turn = self.expr(cond, free), self.copies(inner, free)
                return lambda values: [While(make(values), seq(*turn(values)))]
            case Store() as store:
                return self._store(store, free)
            case If() as branch:
                return self._if(branch, free)
            case Allocate(buffer, inner):
                scope = self.copies(inner, free)
                return lambda values: _around(scope(values), lambda s: Allocate(buffer, s))
            case LetStmt(var, value, inner):
                make = self.expr(value, free)
                let = self.copies(inner, free)
                return lambda values: _around(let(values), lambda s: LetStmt(var, make(values), s))
            case Evaluate(value):
                make = self.expr(value, free)
                return lambda values: [Evaluate(make(values))]
            case AsyncCopy() as copy:
                return self._async_copy(copy, free)
            case Barrier() | AsyncCommit() | AsyncWait():
                return lambda values: [stmt]
            case other:
                assert_never(other)

    def _loop(self, stmt: For, free: tuple[Var, ...]) -> MakeStmts:
        body, extent = self.copies(stmt.body, free), self.expr(stmt.extent, free)

        def make(values: Values) -> list[Stmt]:
            count = extent(values)
            if count is stmt.extent:
                return _around(body(values), stmt.with_body)
            var, notes = stmt.var, stmt.annotations
            return _around(
                body(values), lambda s: For(var, count, stmt.kind, s, stmt.thread, notes)
            )

        return make

    def _unrolled(self, stmt: For, free: tuple[Var, ...]) -> MakeStmts:
        body = self.copies(stmt.body, (*free, stmt.var))
        steps = range(constant_iterations(stmt, "unroll"))
        return lambda values: [new for i in steps for new in body((*values, i))]

    def _store(self, stmt: Store, free: tuple[Var, ...]) -> MakeStmts:
        buffer = stmt.buffer
        index, value = self.expr(stmt.indices[0], free), self.expr(stmt.value, free)
        return lambda values: [Store(buffer, (index(values),), value(values))]

    def _if(self, stmt: If, free: tuple[Var, ...]) -> MakeStmts:
        cond, then = self.expr(stmt.cond, free), self.copies(stmt.then, free)
        other = self.copies(stmt.other, free) if stmt.other is not None else None

        def make(values: Values) -> list[Stmt]:
            test = cond(values)
            constant_test = getattr(test, "value", None)
            if isinstance(constant_test, int):
                chosen = then if constant_test else other
                return chosen(values) if chosen is not None else []
            return _if(test, then(values), other(values) if other is not None else [])

        return make

    def _async_copy(self, stmt: AsyncCopy, free: tuple[Var, ...]) -> MakeStmts:
        to, source = self.expr(stmt.dst_index, free), self.expr(stmt.src_index, free)
        dst, src, size = stmt.dst, stmt.src, stmt.bytes
        return lambda values: [AsyncCopy(dst, to(values), src, source(values), size)]

    def expr(self, expr: Expr, free: tuple[Var, ...]) -> MakeExpr:
        """Return the function from values of ``free`` to the copy of an expression."""
        memo = (expr, free)
        if memo in self._exprs:
            make = self._exprs[memo]
        else:
            make = self._exprs[memo] = self._make(expr, free)
        return (lambda values: expr) if make is None else make

    def _make(self, expr: Expr, free: tuple[Var, ...]) -> MakeExpr | None:
        """Return how the expression is copied; None if it does not change."""
        form = self.simplifier.known_form(expr)
        if form is not None:
            return self._index(form, free)
        match expr:
            case Load(buffer, (index,)):
                return self._load(buffer, self._sub(index, free))
            case CompareOp() | LogicalOp() | Not():
                return self._simplified(expr, free)
            case BinaryOp(a, b):
                return self._binary(expr, a, b, free)
            case Conditional():
                return self._conditional(expr, free)
            case Cast(value, dtype):
                return self._wrapped(value, free, lambda inner: Cast(inner, dtype))
            case Ramp(base, stride, lanes):
                return self._wrapped(base, free, lambda inner: Ramp(inner, stride, lanes))
            case Broadcast(value, lanes):
                return self._wrapped(value, free, lambda inner: Broadcast(inner, lanes))
            case Call(name, args, dtype):
                makes = [self.expr(arg, free) for arg in args]
                if all(self._sub(arg, free) is None for arg in args):
                    return None
                return lambda values: Call(name, tuple([m(values) for m in makes]), dtype)
            case _:
                return self._simplified(expr, free)

    def _sub(self, expr: Expr, free: tuple[Var, ...]) -> MakeExpr | None:
        memo = (expr, free)
        if memo not in self._exprs:
            self._exprs[memo] = self._make(expr, free)
        return self._exprs[memo]

    def _wrapped(
        self, inner: Expr, free: tuple[Var, ...], wrap: Callable[[Expr], Expr]
    ) -> MakeExpr | None:
        make = self._sub(inner, free)
        return None if make is None else lambda values: wrap(make(values))

    def _load(self, buffer: object, index: MakeExpr | None) -> MakeExpr | None:
        if index is None:
            return None
        made: dict[Expr, Load] = {}

        def make(values: Values) -> Expr:
            at = index(values)
            load = made.get(at)
            if load is None:
                load = made[at] = Load(buffer, (at,))
            return load

        return make

    def _binary(self, expr: BinaryOp, a: Expr, b: Expr, free: tuple[Var, ...]) -> MakeExpr | None:
        left, right = self._sub(a, free), self._sub(b, free)
        if left is None and right is None:
            return None
        cls = type(expr)
        if left is None:
            assert right is not None
            return lambda values: cls(a, right(values))
        if right is None:
            return lambda values: cls(left(values), b)
        return lambda values: cls(left(values), right(values))

    def _conditional(self, expr: Conditional, free: tuple[Var, ...]) -> MakeExpr | None:
        parts = (expr.cond, expr.then, expr.other)
        if all(self._sub(part, free) is None for part in parts):
            return None
        cls = type(expr)
        cond, then, other = (self.expr(part, free) for part in parts)
        return lambda values: cls.fold(cond(values), then(values), other(values))

    def _index(self, form: Affine, free: tuple[Var, ...]) -> MakeExpr | None:
        """Copy an index; equal copies are built once."""
        if form.vars.isdisjoint(free):
            return None
        steps = plain_steps(form, free)
        if steps is not None:
            return self._plain_index(form, steps)
        copy = form_copies(self.simplifier, form, free)
        if copy is None:
            return self._substituted(form, free)
        made: dict[Moved, Expr] = {}
        build = self.simplifier.expr

        def make(values: Values) -> Expr:
            moved = copy(values)
            expr = made.get(moved)
            if expr is None:
                form, offset = moved
                expr = made[moved] = build(Affine(form.terms, form.const + offset))
            return expr

        return make

    def _plain_index(self, form: Affine, steps: Sequence[tuple[Var, int, int]]) -> MakeExpr:
        """Copy an index that the variables add multiples of themselves to: most are."""
        moving = {var for var, _, _ in steps}
        kept = {atom: k for atom, k in form.terms.items() if atom.vars.isdisjoint(moving)}
        places = [(place, k) for _, place, k in steps]
        const, build = form.const, self.simplifier.expr
        made: dict[int, Expr] = {}

        def make(values: Values) -> Expr:
            offset = const
            for place, k in places:
                offset += k * values[place]
            expr = made.get(offset)
            if expr is None:
                expr = made[offset] = build(Affine(kept, offset))
            return expr

        return make

    def _substituted(self, form: Affine, free: tuple[Var, ...]) -> MakeExpr:
        simplifier = self.simplifier
        used = [i for i, var in enumerate(free) if var in form.vars]
        return self._of_used(
            free, used, lambda env: simplifier.expr(simplifier.substitute(form, env))
        )

    def _of_used(
        self, free: tuple[Var, ...], used: list[int], compute: Callable[[Substitution], Expr]
    ) -> MakeExpr:
        """Return a function that computes the copy once for each combination of values it uses."""
        names = tuple([free[i] for i in used])
        made: dict[Values, Expr] = {}
        # Without `self`, which holds this function: what has cycles waits for the collector.
        environments = self._environments

        def make(values: Values) -> Expr:
            key = tuple([values[i] for i in used])
            expr = made.get(key)
            if expr is None:
                expr = made[key] = compute(_environment(environments, names, key))
            return expr

        return make

    def _simplified(self, expr: Expr, free: tuple[Var, ...]) -> MakeExpr | None:
        simplifier = self.simplifier
        inside = set(variables(expr))
        used = [i for i, var in enumerate(free) if var in inside]
        if not used:
            return None
        return self._of_used(free, used, lambda env: simplifier.simplify(expr, env))


def _environment(known: Environments, free: tuple[Var, ...], values: Values) -> Substitution:
    """Return the values of variables, from those that are known if they are there."""
    memo = (free, values)
    env = known.get(memo)
    if env is None:
        pairs = zip(free, map(constant, values), strict=True)
        env = known[memo] = Substitution(dict(pairs))
    return env


def _around(body: list[Stmt], around: Callable[[Stmt], Stmt]) -> list[Stmt]:
    """Returns the statement with its new body, or nothing if the body is empty."""
    return [around(seq(*body))] if body else []


def _if(test: Expr, then: list[Stmt], other: list[Stmt]) -> list[Stmt]:
    """Returns a decision; a branch is empty where conditions inside turned out constant."""
    if not then:
        return [If(Not(test), seq(*other))] if other else []
    return [If(test, seq(*then), seq(*other) if other else None)]
