"""The loops of a tensorized stage: those outside the axis, around the statements of its intrinsic.

The parts of a reduction that is outside of the axis too begin with the intrinsic's first values,
or, if it has none, with its whole computation in the first iteration::

    for k.outer: if k.outer == 0: body() else: update()
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine
from autotune.ir.expr import Call, Expr, Reduce, Var
from autotune.ir.stmt import If, Stmt, seq
from autotune.ir.structure import walk
from autotune.lowering.plan import StagePlan
from autotune.lowering.reduction_nest import ReductionNest
from autotune.lowering.stage_nest import Nests, StageNest
from autotune.lowering.tensorize_bind import Binding
from autotune.lowering.tensorize_match import match
from autotune.te.tensor_intrin import TensorIntrin
from autotune.te.warp_matrix import WARP_MATRIX


class TensorizedNest(ReductionNest):
    """Builds the loops of a stage whose inner loops are an intrinsic."""

    def __init__(self, nests: Nests, plan: StagePlan, opened: frozenset[Var]) -> None:
        StageNest.__init__(self, nests, plan, opened)
        stage = plan.stage
        assert stage.tensorized is not None
        axis, self.intrin = stage.tensorized
        if axis not in stage.leaf_iter_vars:
            raise LoweringError(
                f"tensorize: axis {axis.name!r} of {stage.op.name} was split or fused since; "
                "tensorize last"
            )
        at = stage.leaf_iter_vars.index(axis)
        self._check_inside(at)
        reduction = plan.body.reduction
        if reduction is not None:
            self.reduction: Reduce = reduction
        self.binding = self._bound(at)
        self.levels = self.levels[:at]

    def _check_inside(self, at: int) -> None:
        for level in self.levels[at:]:
            if level.children:
                names = ", ".join(child.op.name for child in level.children)
                raise LoweringError(
                    f"tensorize: {names} is computed at {level.leaf.name!r} of "
                    f"{self.plan.stage.op.name}, which {self.intrin.name} replaces; compute it at "
                    "a loop outside the tensorized one"
                )
            if level.thread is not None:
                raise LoweringError(
                    f"tensorize: {level.leaf.name!r} of {self.plan.stage.op.name} is bound to "
                    f"{level.thread.tag}, but {self.intrin.name} replaces it"
                )

    def _bound(self, at: int) -> Binding:
        """Match the intrinsic, and bind its buffers to the regions found."""
        matched = match(self.plan, self.simplifier, at, self.intrin)
        name = f"tensorize: {self.plan.stage.op.name} by {self.intrin.name}"
        binding = Binding(name, self.simplifier, self.nests.storages)
        for tensor, (actual, lows) in matched.regions.items():
            declared = self.intrin.buffers[tensor]
            place = self.nests.storages.stage_of[actual.op]
            scope = self.nests.storages.of(actual).buffer.scope if self.nests.plan.gpu else ""
            binding.bind(
                declared, actual, lows, tensor.shape, place.scope or scope if scope else ""
            )
        return binding

    def build(self) -> Stmt:
        """Return the statement of the whole stage."""
        reduces = [i for i, level in enumerate(self.levels) if level.is_reduce]
        if not reduces:
            guards = self.guards(self.conditions())
            body = self._statement(self.intrin.body)
            return self.loops(0, len(self.levels), guards, lambda: body)
        if self.intrin.update is None:
            raise LoweringError(
                f"tensorize: {self.plan.stage.op.name} reduces over "
                f"{self.levels[reduces[0]].leaf.name!r}, outside of what {self.intrin.name} "
                "replaces, but the intrinsic has no statement for an update: return (body, reset, "
                "update) where it is declared"
            )
        return super().build()

    def _statement(self, stmt: Stmt, env: Mapping[Var, Affine] | None = None) -> Stmt:
        return self.binding.statement(stmt, env or {})

    def _init(self, begin: int, conditions: Sequence[Expr]) -> Stmt:
        """Return the first values; none if the first iteration computes them."""
        return seq() if self.intrin.reset is None else super()._init(begin, conditions)

    def _first_values(self, env: Mapping[Var, Affine]) -> Stmt:
        assert self.intrin.reset is not None
        return self._statement(self.intrin.reset, env)

    def _update(self) -> Stmt:
        assert self.intrin.update is not None
        update = self._statement(self.intrin.update)
        if self.intrin.reset is not None:
            return update
        steps = [level.leaf.var for level in self.levels if level.is_reduce]
        begins = [self.simplifier.condition("==", self.simplifier.var(var)) for var in steps]
        first = self.simplifier.conjunction(begins)
        return If(first, self._statement(self.intrin.body), update)

    def _ownership(self) -> list[Expr]:
        """Return conditions under which one thread alone stores; all of a warp call together."""
        return [] if is_collective(self.intrin) else super()._ownership()


def is_collective(intrin: TensorIntrin) -> bool:
    """Return whether all threads of a warp carry an intrinsic out together."""
    stmts = [each for each in (intrin.body, intrin.reset, intrin.update) if each is not None]
    return any(
        isinstance(node, Call) and node.name.startswith(WARP_MATRIX) for node in walk(*stmts)
    )
