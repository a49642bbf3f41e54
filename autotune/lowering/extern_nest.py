"""The statements of an operation that a script wrote by hand (`te.extern`)."""

from __future__ import annotations

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import constant
from autotune.ir.expr import Var
from autotune.ir.stmt import Stmt
from autotune.lowering.extents import expr_of
from autotune.lowering.plan import StagePlan
from autotune.lowering.stage_nest import Nests
from autotune.lowering.tensorize_bind import Binding
from autotune.te.extern import ExternOp


class ExternNest:
    """Puts the statements at the memory of their inputs and outputs."""

    def __init__(self, nests: Nests, plan: StagePlan) -> None:
        self.nests = nests
        self.plan = plan

    def build(self) -> Stmt:
        """Return the statement of the whole stage."""
        op = self.plan.stage.op
        assert isinstance(op, ExternOp)
        simplifier, storages = self.nests.simplifier, self.nests.storages
        binding = Binding(f"te.extern: {op.name}", simplifier, storages)
        for declared, tensor in zip(op.buffers, (*op.inputs, *op.outputs), strict=True):
            storage = storages.of(tensor)
            strides = [expr_of(simplifier, k) for k in storage.strides]
            shape = storage.buffer.shape
            if storage.lows is not None:
                raise LoweringError(
                    f"te.extern: {op.name} reads {tensor.name}, which is computed in part only; "
                    "compute it at the root"
                )
            binding.bind_memory(declared, storage.buffer, constant(0), shape, strides)
        binding.threads = self._threads()
        return binding.statement(op.body, {})

    def _threads(self) -> dict[str, Var]:
        """Return the variables of the kernel's thread axes, by tag."""
        root, plan = self.plan.root, self.nests.plan
        return {tag: one.var for (each, tag), one in plan.threads.items() if each is root}
