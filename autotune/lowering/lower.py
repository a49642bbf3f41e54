"""Lowering: a schedule becomes a function, by passes that run one after another.

Each pass maps valid statements to valid statements. A hook is called with the result of every
pass; printing and timing of passes use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from autotune.errors import LoweringError
from autotune.ir.expr import Var
from autotune.ir.stmt import Buffer, Stmt, seq
from autotune.lowering.arguments import FunctionArguments, checked_arguments
from autotune.lowering.bodies import BodySimplifier
from autotune.lowering.bounds import infer_bounds
from autotune.lowering.buffers import TensorStorages
from autotune.lowering.extents import expr_of
from autotune.lowering.extern_texts import imported_texts
from autotune.lowering.function import LoweredFunction, LoweredKernel
from autotune.lowering.horizontal_fusion import fuse_copies
from autotune.lowering.launch_bounds import min_blocks_of
from autotune.lowering.nest import make_nests
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.table import PASSES
from autotune.lowering.plan import Plan
from autotune.lowering.scan_plan import private_states
from autotune.lowering.unfinished import why_not_launched, why_unfinished
from autotune.target import Limits
from autotune.target.backends import of_language, of_threads
from autotune.te.extern import ExternOp
from autotune.te.intrin_rules import by_rules
from autotune.te.schedule import Schedule
from autotune.te.stage import Stage
from autotune.te.tensor import Tensor
from autotune.utils.garbage import collection_paused

# Called after each pass with its name and what it left.
Hook = Callable[[str, object], None]


def lower(
    schedule: Schedule,
    args: Sequence[Tensor | Var],
    simple_mode: bool = True,
    name: str = "main",
) -> LoweredFunction:
    """Return the loops of a schedule; printing the result shows them.

    While a schedule for a GPU is being written, stages whose loops are not bound to threads yet
    are printed too; `build` refuses them.

    Args:
        schedule: what to lower; it is not changed.
        args: what the function takes, in the caller's order: tensors, inputs and outputs, and
            variables (`te.var`) that are passed by value. Variables in shapes need not be among
            them.
        simple_mode: kept for AutoTVM's signature; the text is always the simple one.
        name: of the function.

    Example::

        print(lower(s, [A, B, C]))
    """
    del simple_mode
    return lower_schedule(schedule, args, name=name)


def lower_schedule(
    schedule: Schedule,
    args: Sequence[Tensor | Var],
    name: str = "main",
    target_kind: str | None = None,
    hook: Hook | None = None,
    limits: Limits | None = None,
) -> LoweredFunction:
    """Lower a schedule for a kind of target.

    Args:
        schedule: what to lower.
        args: the tensors and variables that the function takes.
        name: of the function; its kernels are called after it.
        target_kind: ``"cuda"`` or ``"c"``; by default what the bound thread axes say, and stages
            for a GPU without threads are lowered for printing only (`LoweredKernel.unfinished`).
        hook: sees what each pass leaves.
        limits: of the GPU; they are checked as soon as they can be.

    Raises:
        LoweringError: the schedule cannot be lowered; the message says which stage and why.
        InstantiationError: a kernel breaks a limit; the message says which.
    """
    checked = checked_arguments(schedule, args, name)
    with collection_paused():
        try:
            return _Lowering(schedule, checked, name, target_kind, hook, limits).run()
        except RecursionError:
            raise LoweringError(
                f"{name}: its loops or expressions are nested too deeply to be lowered; split and "
                "fuse less"
            ) from None


class _Lowering:
    """One run of all passes."""

    def __init__(
        self,
        schedule: Schedule,
        args: Sequence[Tensor | Var],
        name: str,
        target_kind: str | None,
        hook: Hook | None,
        limits: Limits | None,
    ) -> None:
        self.schedule = schedule
        self.name = name
        self.hook = hook
        # For no target yet: the loops are printed, while some may still have to be bound.
        self.shown = target_kind is None
        bound = target_kind is None and schedule.binds_threads()
        self.backend = of_threads(bound) if target_kind is None else of_language(target_kind)
        self.gpu = self.backend.on_gpu
        self.simplifier = BodySimplifier(schedule.stage_map)
        self.limits = limits
        self.arguments = FunctionArguments(schedule, args, name, self.shown)
        extents = {e for each in self.arguments.tensors for e in each.shape if isinstance(e, Var)}
        for var in extents:
            self.simplifier.bind(var, 1, float("inf"))

    def run(self) -> LoweredFunction:
        """Run all passes."""
        arguments = self.arguments
        kept = [stage for stage, _ in arguments.results()]
        plan = infer_bounds(self.schedule, self.simplifier, kept, self.gpu, self.shown)
        self._seen("infer_bounds", plan)
        buffers = arguments.buffers(self.simplifier)
        given = {
            place: buffers[tensor]
            for tensor, place in zip(arguments.tensors, arguments.places, strict=True)
            if place is not None
        }
        storages = TensorStorages(plan, self.simplifier, self.schedule.stage_map, given)
        nests = [
            (stage, by_rules(nest, self.backend.language))
            for stage, nest in make_nests(plan, self.simplifier, storages)
        ]
        workspaces = self._workspaces(plan, storages, set(given.values()))
        self._seen("make_nests", nests)
        ordered = [buffers[e] if isinstance(e, Tensor) else e for e in arguments.given]
        params = [*ordered, *arguments.sizes, *workspaces]
        kernels = self._kernels(plan, nests, params, storages)
        return LoweredFunction(
            name=self.name,
            args=tuple(ordered),
            roles=tuple(arguments.roles()),
            workspaces=tuple(workspaces),
            kernels=tuple(kernels),
            target_kind=self.backend.language,
            sizes=arguments.sizes,
            imports=imported_texts(self.schedule),
        )

    def _seen(self, name: str, left: object) -> None:
        if self.hook is not None:
            self.hook(name, left)

    def _workspaces(
        self, plan: Plan, storages: TensorStorages, given: set[Buffer]
    ) -> list[Buffer]:
        found: dict[Buffer, None] = {}
        for stage, stage_plan in reversed(list(plan.stages.items())):
            for tensor in stage.op.outputs:
                buffer = storages.of(tensor).buffer
                if not stage_plan.compact and buffer not in given:
                    found[buffer] = None
        return list(found)

    # Kernels.

    def _kernels(
        self,
        plan: Plan,
        nests: list[tuple[Stage, Stmt]],
        params: Sequence[Buffer | Var],
        storages: TensorStorages,
    ) -> list[LoweredKernel]:
        if not self.gpu:
            draft = Draft(self.name, self.name, self.simplifier, params=params)
            kernels = [self._kernel(seq(*[nest for _, nest in nests]), draft)]
        else:
            drafts = [self._draft(plan, i, each, params) for i, (each, _) in enumerate(nests)]
            for draft, (root, _) in zip(drafts, nests, strict=True):
                states = private_states(plan, self.simplifier, root)
                draft.private = {storages.of(root.op.outputs[i]).buffer for i in states}
                draft.of_warps = {
                    storages.of(tensor).buffer
                    for stage, each in plan.stages.items()
                    if each.root is root and (each.scope, stage.scope) == ("shared", "warp")
                    for tensor in stage.op.outputs
                }
            kernels = [self._kernel(n, d) for d, (_, n) in zip(drafts, nests, strict=True)]
            kernels = [
                replace(one, stage=stage.op.name, unfinished=self._unfinished(plan, stage))
                for one, (stage, _) in zip(kernels, nests, strict=True)
            ]
            kernels = fuse_copies(kernels)
        self._seen("kernels", kernels)
        return kernels

    def _draft(
        self, plan: Plan, number: int, stage: Stage, params: Sequence[Buffer | Var]
    ) -> Draft:
        threads = [t for (root, _), t in plan.threads.items() if root is stage]
        if not self.shown and (why := why_not_launched(plan, self.simplifier, stage)):
            raise LoweringError(why)
        blocks = [t for t in threads if t.tag.startswith("blockIdx")]
        return Draft(
            name=f"{self.name}_kernel{number}",
            stage=stage.op.name,
            simplifier=self.simplifier,
            gpu=True,
            params=params,
            threads=threads,
            grid={t.tag: expr_of(self.simplifier, t.extent) for t in blocks},
            vthreads=prod(t.count for t in plan.virtual.values() if t.root is stage),
            limits=self.limits,
            min_blocks=min_blocks_of(plan, stage),
            by_hand=isinstance(stage.op, ExternOp),
        )

    def _kernel(self, stmt: Stmt, draft: Draft) -> LoweredKernel:
        for each in PASSES:
            stmt = each.run(stmt, draft)
            self._seen(each.name, stmt)
        assert draft.kernel is not None
        return replace(draft.kernel, body=stmt)

    def _unfinished(self, plan: Plan, stage: Stage) -> str:
        return why_unfinished(plan, self.simplifier, stage) if self.shown else ""
