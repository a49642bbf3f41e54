"""Loop nests: stages become loops around stores, the stages attached to them inside."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.ir.expr import Expr, IterVar, Var
from autotune.ir.stmt import Stmt
from autotune.lowering.bodies import BodySimplifier
from autotune.lowering.buffers import ReadsToLoads, TensorStorages
from autotune.lowering.extern_nest import ExternNest
from autotune.lowering.plan import Plan, StagePlan
from autotune.lowering.reduction_nest import CrossThreadNest, ReductionNest
from autotune.lowering.scan_nest import ScanNest
from autotune.lowering.stage_nest import StageNest
from autotune.lowering.tensorized_nest import TensorizedNest
from autotune.te.extern import ExternOp
from autotune.te.stage import Stage
from autotune.te.tensor import ScanOp


def make_nests(
    plan: Plan, simplifier: BodySimplifier, storages: TensorStorages
) -> list[tuple[Stage, Stmt]]:
    """Return the loop nest of every stage that is computed at the root, in order."""
    nests = _Nests(plan, simplifier, storages)
    return [
        (stage, nests.stage(plan.stages[stage], frozenset()))
        for stage in plan.schedule.stages
        if stage in plan.stages and plan.stages[stage].root is stage
    ]


class _Nests:
    """State shared by the nests of one plan."""

    def __init__(self, plan: Plan, simplifier: BodySimplifier, storages: TensorStorages) -> None:
        self.plan = plan
        self.simplifier = simplifier
        self.storages = storages
        self._loads = ReadsToLoads(storages)
        self._attached: dict[tuple[Stage, IterVar], list[Stage]] = {}
        for stage in plan.schedule.stages:
            if stage in plan.stages and stage.attachment is not None:
                self._attached.setdefault(stage.attachment, []).append(stage)

    def attached(self, stage: Stage, leaf: IterVar) -> Sequence[Stage]:
        """Return the stages attached to a loop of a stage, producers first."""
        return self._attached.get((stage, leaf), ())

    def flat(self, value: Expr) -> Expr:
        """Return a value with loads of buffers for reads of tensors."""
        return self._loads.rewrite(value)

    def stage(self, plan: StagePlan, opened: frozenset[Var]) -> Stmt:
        """Return the loops of a stage; ``opened`` are the thread axes that are around it."""
        if isinstance(plan.stage.op, ExternOp):
            return ExternNest(self, plan).build()
        if isinstance(plan.stage.op, ScanOp):
            return ScanNest(self, plan, opened).build()
        if plan.stage.tensorized is not None:
            return TensorizedNest(self, plan, opened).build()
        reduction = plan.body.reduction
        if reduction is None:
            return StageNest(self, plan, opened).build()
        if any(leaf.kind == "reduce" for leaf in plan.threads):
            return CrossThreadNest(self, plan, opened, reduction).build()
        return ReductionNest(self, plan, opened, reduction).build()
