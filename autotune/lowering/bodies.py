"""Evaluation of the bodies of computes: inlined stages substituted, indices in affine form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine
from autotune.ir.dtype import INDEX_DTYPE
from autotune.ir.expr import (
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    ProducerLoad,
    Reduce,
    TruncDiv,
    TruncMod,
    Var,
    const,
)
from autotune.ir.interval import Interval
from autotune.ir.simplify import Simplifier, Value
from autotune.ir.visitor import reads_in
from autotune.lowering.extents import Extent, SymbolicSizes
from autotune.lowering.index_overflow import without_overflow
from autotune.lowering.plan import Body
from autotune.te.intrinsics import NEEDED
from autotune.te.stage import Stage
from autotune.te.tensor import ComputeOp, Operation, Tensor


class BodySimplifier(Simplifier):
    """A simplifier that replaces reads of inlined tensors by what those tensors are."""

    def __init__(self, stage_of: Mapping[Operation, Stage]) -> None:
        super().__init__()
        self.stage_of = stage_of
        self.sizes = SymbolicSizes()
        self._inlining: list[Stage] = []
        self._safe: dict[Expr, Expr] = {}

    def visit_ProducerLoad(self, load: ProducerLoad) -> Value:
        """Return the value of what is computed inline, else the read."""
        tensor = load.tensor
        indices = [self._as_form(self._eval(index)) for index in load.indices]
        stage = self.stage_of[tensor.op]
        if stage.attach_type == "inline":
            return self._inlined(stage, tensor, indices)
        built = tuple([self.expr(index) for index in indices])
        return ProducerLoad(tensor, built)

    def bind_loop(self, var: Var, extent: Extent) -> Affine:
        """Declare the variable of a loop; return its form."""
        return self.sizes.bind(self, var, extent)

    def _bounds_of(self, value: Value) -> Interval:
        """Know of products and quotients of what is not negative that they are not, too."""
        if isinstance(value, Mul | TruncDiv | TruncMod | FloorDiv | FloorMod):
            (low_a, _), (low_b, _) = self.bounds(value.a), self.bounds(value.b)
            if value.dtype == INDEX_DTYPE and low_a >= 0 and low_b >= 0:
                return (low_a * low_b if isinstance(value, Mul) else 0), inf
        return super()._bounds_of(value)

    def _inlined(self, stage: Stage, tensor: Tensor, indices: Sequence[Affine]) -> Value:
        op = stage.op
        if not isinstance(op, ComputeOp) or isinstance(op.body[0], Reduce):
            raise LoweringError(
                f"compute_inline: {stage.op.name} is a reduction or an argument; only a stage "
                "that computes each element on its own can be inlined"
            )
        if stage in self._inlining:
            raise LoweringError(f"compute_inline: {stage.op.name} is inlined into itself")
        outer = self._env
        self._env = {axis.var: index for axis, index in zip(op.axis, indices, strict=True)}
        self._inlining.append(stage)
        try:
            return self._eval(self._safe_value(op, op.body[tensor.value_index]))
        finally:
            self._env = outer
            self._inlining.pop()

    def body(self, op: ComputeOp, env: Mapping[Var, Affine]) -> Body:
        """Return the values of a compute, its axes replaced by their values in terms of loops."""
        first = op.body[0]
        if not isinstance(first, Reduce):
            return Body(self._values(op, op.body, env))
        (condition,) = self._values(op, (first.condition,), env)
        needed = None
        if isinstance(condition, Call) and condition.name == NEEDED:
            needed, condition = condition.args[0], const(True, "bool")
        always = isinstance(condition, IntImm) and condition.value != 0
        return Body(
            self._values(op, first.sources, env),
            first,
            None if always else condition,
            needed,
            self._values(op, first.init, env),
        )

    def _values(
        self, op: ComputeOp, values: Sequence[Expr], env: Mapping[Var, Affine]
    ) -> tuple[Expr, ...]:
        return tuple([self.simplify(self._safe_value(op, each), env) for each in values])

    def _safe_value(self, op: ComputeOp, value: Expr) -> Expr:
        """Return a value of a compute whose indices do not overflow."""
        safe = self._safe.get(value)
        if safe is None:
            safe = without_overflow(value, (*op.axis, *op.reduce_axis))
            self._safe[value] = safe
        return safe


def reads_of(body: Body) -> list[ProducerLoad]:
    """Return the reads of tensors that a body makes."""
    conditions = () if body.condition is None else (body.condition,)
    return reads_in(*body.values, *body.init, *conditions)
