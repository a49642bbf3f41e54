"""The simplifier: integer expressions become canonical affine forms, conditions are proven.

One `Simplifier` serves one lowering. It remembers the form of every expression that it built, so
a pass that simplifies an index again pays for a dictionary lookup; equal forms give the very same
expression object, which lets a printer remember text by identity.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from autotune.ir.address import Address
from autotune.ir.affine_builder import AffineBuilder
from autotune.ir.analysis_affine import Affine, Atom, AtomKind, constant, scale_affine
from autotune.ir.dispatch import Dispatcher
from autotune.ir.dtype import INDEX_DTYPE, int_range, is_int
from autotune.ir.expr import (
    Add,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Conditional,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Load,
    LogicalOp,
    Max,
    Min,
    Mul,
    Not,
    Ramp,
    Select,
    Sub,
    Var,
)
from autotune.ir.interval import EVERYTHING, Interval, intersect, union
from autotune.ir.operators import Extremum, IntDivision
from autotune.ir.structure import structural_key, variables

# What evaluating gives: a form for integer arithmetic on variables, else a rebuilt expression.
Value = Affine | Expr
Environment = Mapping[Var, Affine]


def simplify(expr: Expr, ranges: Mapping[Var, tuple[int, int]] | None = None) -> Expr:
    """Return an equal, simpler expression; ``ranges`` gives the ends, inclusive, of variables."""
    return Simplifier(ranges).simplify(expr)


class Simplifier(AffineBuilder, Dispatcher):
    """Rewrites expressions over variables of known ranges, by a method for each class of them."""

    def __init__(self, ranges: Mapping[Var, tuple[int, int]] | None = None) -> None:
        super().__init__(ranges)
        self._env: Environment = {}
        self._opaque_by_key: dict[Hashable, Affine] = {}

    # What passes call.

    def simplify(self, expr: Expr, env: Environment | None = None) -> Expr:
        """Return an equal, simpler expression, with the variables of ``env`` replaced."""
        return self.expr(self.evaluate(expr, env))

    def evaluate(self, expr: Expr, env: Environment | None = None) -> Value:
        """Return the form of an index expression, or a simplified expression of any other kind."""
        outer, self._env = self._env, env if env is not None else {}
        try:
            return self._eval(expr)
        finally:
            self._env = outer

    def form(self, expr: Expr, env: Environment | None = None) -> Affine:
        """Return the affine form of an integer expression; what is not affine is one atom."""
        return self._as_form(self.evaluate(expr, env))

    def form_of(self, expr: Expr) -> Affine:
        """Return the form of an index, at no cost if this simplifier built it."""
        form = self._form.get(expr)
        return self.form(expr) if form is None else form

    def bounds(self, expr: Expr) -> Interval:
        """Return the interval of an integer expression."""
        return self._bounds_of(self.evaluate(expr))

    # From expressions to forms.

    def _eval(self, expr: Expr) -> Value:
        form = self._form.get(expr)
        if form is not None:
            return self.substitute(form, self._env) if self._env else form
        value: Value = self.methods[type(expr)](self, expr)
        return value

    def _as_form(self, value: Value) -> Affine:
        if isinstance(value, Affine):
            return value
        if isinstance(value, Cast) and is_int(value.dtype) and is_int(value.value.dtype):
            return self._as_form(self.evaluate(value.value))
        key = structural_key(value)
        form = self._opaque_by_key.get(key)
        if form is None:
            low, high = self._bounds_of(value)
            form = self.opaque(value, low, high, frozenset(variables(value)))
            self._opaque_by_key[key] = form
        return form

    def _substitute_atom(self, atom: Atom, values: Environment) -> Affine:
        if atom.kind is AtomKind.OPAQUE and atom.expr is not None:
            # What was built of this atom alone has the atom as its form: that is not asked again.
            outer, self._env = self._env, values
            try:
                return self._as_form(self.methods[type(atom.expr)](self, atom.expr))
            finally:
                self._env = outer
        return super()._substitute_atom(atom, values)

    def _bounds_of(self, value: Value) -> Interval:
        if isinstance(value, Affine):
            return value.bounds
        if not is_int(value.dtype):
            return EVERYTHING
        whole: Interval = int_range(value.dtype) if value.dtype != INDEX_DTYPE else EVERYTHING
        match value:
            case Min(a, b):
                (low_a, high_a), (low_b, high_b) = self.bounds(a), self.bounds(b)
                return min(low_a, low_b), min(high_a, high_b)
            case Max(a, b):
                (low_a, high_a), (low_b, high_b) = self.bounds(a), self.bounds(b)
                return max(low_a, low_b), max(high_a, high_b)
            case Select(_, a, b) | IfThenElse(_, a, b):
                return union(self.bounds(a), self.bounds(b))
            case Cast(inner) if is_int(inner.dtype):
                return intersect(self.bounds(inner), whole)
            case FloorMod(_, IntImm(divisor)) if divisor > 0:
                return 0, divisor - 1
            case _:
                return whole

    def visit_Var(self, var: Var) -> Value:
        """Return what replaces a variable, else its form."""
        form = self._env.get(var)
        if form is not None:
            return form
        return self.var(var) if var.dtype == INDEX_DTYPE else var

    def visit_IntImm(self, imm: IntImm) -> Value:
        """Return the form of an index."""
        return constant(imm.value) if imm.dtype == INDEX_DTYPE else imm

    def visit_FloatImm(self, imm: FloatImm) -> Value:
        """Keep a constant."""
        return imm

    def generic(self, node: Expr) -> object:
        """Refuse what only some subclasses know, such as reads of tensors."""
        raise NotImplementedError(f"{type(self).__name__}: no rule for {node}")

    def _rebuilt(self, expr: BinaryOp, a: Value, b: Value) -> Expr:
        left, right = self.expr(a), self.expr(b)
        return expr if left is expr.a and right is expr.b else type(expr).fold(left, right)

    def visit_Add(self, expr: Add) -> Value:
        """Add forms."""
        a, b = self._eval(expr.a), self._eval(expr.b)
        if isinstance(a, Affine) and isinstance(b, Affine):
            return self.add(a, b)
        return self._rebuilt(expr, a, b)

    def visit_Sub(self, expr: Sub) -> Value:
        """Subtract forms."""
        a, b = self._eval(expr.a), self._eval(expr.b)
        if isinstance(a, Affine) and isinstance(b, Affine):
            return self.sub(a, b)
        return self._rebuilt(expr, a, b)

    def visit_Mul(self, expr: Mul) -> Value:
        """Multiply a form by a constant."""
        a, b = self._eval(expr.a), self._eval(expr.b)
        if isinstance(a, Affine) and isinstance(b, Affine):
            if not b.terms:
                return scale_affine(a, b.const)
            if not a.terms:
                return scale_affine(b, a.const)
        return self._rebuilt(expr, a, b)

    def visit_IntDivision(self, expr: IntDivision) -> Value:
        """Divide a form by a positive constant, where that rounds down."""
        a, b = self._eval(expr.a), self._eval(expr.b)
        down = _division_down(expr, a, b)
        if down is None:
            return self._rebuilt(expr, a, b)
        return self.floormod(*down) if expr.is_remainder else self.floordiv(*down)

    def visit_Extremum(self, expr: Extremum) -> Value:
        """Choose where the ranges of both sides decide."""
        a, b = self._eval(expr.a), self._eval(expr.b)
        if isinstance(a, Affine) and isinstance(b, Affine):
            low, high = self.sub(a, b).bounds
            if high <= 0:
                return a if isinstance(expr, Min) else b
            if low >= 0:
                return b if isinstance(expr, Min) else a
        return self._rebuilt(expr, a, b)

    def visit_CompareOp(self, expr: CompareOp) -> Value:
        """Decide a comparison, or bring it to one form."""
        a, b = self._eval(expr.a), self._eval(expr.b)
        if isinstance(a, Affine) and isinstance(b, Affine):
            return self.compare(expr.symbol, a, b)  # type: ignore[arg-type]
        return self._rebuilt(expr, a, b)

    def visit_BinaryOp(self, expr: BinaryOp) -> Value:
        """Evaluate both operands."""
        return self._rebuilt(expr, self._eval(expr.a), self._eval(expr.b))

    def visit_LogicalOp(self, expr: LogicalOp) -> Value:
        """Evaluate both sides, of which one is enough where they are the same."""
        a, b = self._eval(expr.a), self._eval(expr.b)
        return self.expr(a) if a is b else self._rebuilt(expr, a, b)

    def visit_Not(self, expr: Not) -> Value:
        """Evaluate the operand."""
        a = self.expr(self._eval(expr.a))
        return expr if a is expr.a else Not.fold(a)

    def visit_Conditional(self, expr: Conditional) -> Value:
        """Choose where the condition is known, or both values are the same."""
        cond = self.expr(self._eval(expr.cond))
        if isinstance(cond, IntImm):
            return self._eval(expr.then if cond.value else expr.other)
        then, other = self.expr(self._eval(expr.then)), self.expr(self._eval(expr.other))
        if cond is expr.cond and then is expr.then and other is expr.other:
            return expr
        return then if then is other else type(expr)(cond, then, other)

    def visit_Cast(self, expr: Cast) -> Value:
        """Evaluate the value."""
        value = self.expr(self._eval(expr.value))
        return expr if value is expr.value else value.astype(expr.dtype)

    def visit_Call(self, expr: Call) -> Value:
        """Evaluate the arguments."""
        args = tuple([self.expr(self._eval(a)) for a in expr.args])
        same = all(new is old for new, old in zip(args, expr.args, strict=True))
        return expr if same else Call(expr.name, args, expr.dtype)

    def visit_Load(self, expr: Load) -> Value:
        """Evaluate the indices."""
        indices = tuple([self.expr(self._eval(i)) for i in expr.indices])
        same = all(new is old for new, old in zip(indices, expr.indices, strict=True))
        return expr if same else Load(expr.buffer, indices)

    def visit_Address(self, expr: Address) -> Value:
        """Evaluate the index."""
        return expr.at(expr.buffer, self.expr(self._eval(expr.index)))

    def visit_Ramp(self, expr: Ramp) -> Value:
        """Evaluate the first index."""
        base = self.expr(self._eval(expr.base))
        return expr if base is expr.base else Ramp(base, expr.stride, expr.lanes)

    def visit_Broadcast(self, expr: Broadcast) -> Value:
        """Evaluate the value."""
        value = self.expr(self._eval(expr.value))
        return expr if value is expr.value else Broadcast(value, expr.lanes)


def _division_down(expr: IntDivision, a: Value, b: Value) -> tuple[Affine, int] | None:
    """Return a form and the positive constant by which it is divided, if that rounds down."""
    if not isinstance(a, Affine) or not isinstance(b, Affine) or b.terms or b.const <= 0:
        return None
    return (a, b.const) if isinstance(expr, FloorDiv | FloorMod) or a.bounds[0] >= 0 else None
