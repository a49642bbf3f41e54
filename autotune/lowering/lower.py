"""Lowering: a schedule becomes a function, by passes that run one after another.

Each pass maps valid statements to valid statements. A hook is called with the result of every
pass; printing and timing of passes use it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import prod

from autotune.errors import LoweringError
from autotune.ir.expr import Var, as_expr
from autotune.ir.stmt import Buffer, Stmt, seq
from autotune.lowering.arguments import checked_arguments, sizes_of
from autotune.lowering.bodies import BodySimplifier
from autotune.lowering.bounds import infer_bounds
from autotune.lowering.buffers import TensorStorages
from autotune.lowering.extents import as_extent, expr_of
from autotune.lowering.extern_texts import imported_texts
from autotune.lowering.function import LoweredFunction, LoweredKernel
from autotune.lowering.launch_bounds import min_blocks_of
from autotune.lowering.nest import make_nests
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.table import PASSES
from autotune.lowering.plan import Plan
from autotune.lowering.scan_plan import private_states, reads_across_blocks
from autotune.lowering.together import copies_together
from autotune.lowering.unfinished import is_unattached, unattached, unbound
from autotune.target import Limits
from autotune.target.backends import of_language, of_threads
from autotune.te.extern import ExternOp
from autotune.te.intrin_rules import by_rules
from autotune.te.location import warn_user
from autotune.te.schedule import Schedule
from autotune.te.stage import Stage
from autotune.te.stores import as_store, written_shape
from autotune.te.tensor import ComputeOp, PlaceholderOp, Tensor
from autotune.utils.garbage import collection_paused

# A tensor of a schedule: its stage, and which of the stage's outputs it is.
Place = tuple[Stage, int]
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
        self.args = args
        self.tensors = [each for each in args if isinstance(each, Tensor)]
        self.name = name
        self.hook = hook
        # For no target yet: the loops are printed, while some may still have to be bound.
        self.shown = target_kind is None
        bound = target_kind is None and schedule.binds_threads()
        self.backend = of_threads(bound) if target_kind is None else of_language(target_kind)
        self.gpu = self.backend.on_gpu
        self.simplifier = BodySimplifier(schedule.stage_map)
        self.limits = limits
        self.sizes = sizes_of(args, name)
        extents = {e for tensor in self.tensors for e in tensor.shape if isinstance(e, Var)}
        for var in extents:
            self.simplifier.bind(var, 1, float("inf"))

    def run(self) -> LoweredFunction:
        """Run all passes."""
        kept = self._kept()
        stages = [stage for stage, _ in kept]
        plan = infer_bounds(self.schedule, self.simplifier, stages, self.gpu, self.shown)
        self._seen("infer_bounds", plan)
        buffers = [self._argument_buffer(tensor) for tensor in self.tensors]
        places = zip(self._places(), buffers, strict=True)
        given = {place: buffer for place, buffer in places if place is not None}
        storages = TensorStorages(plan, self.simplifier, self.schedule.stage_map, given)
        nests = [
            (stage, by_rules(nest, self.backend.language))
            for stage, nest in make_nests(plan, self.simplifier, storages)
        ]
        workspaces = self._workspaces(plan, storages, set(given.values()))
        self._seen("make_nests", nests)
        named = dict(zip(self.tensors, buffers, strict=True))
        ordered = [named[each] if isinstance(each, Tensor) else each for each in self.args]
        params = [*ordered, *self.sizes, *workspaces]
        kernels = self._kernels(plan, nests, params, storages)
        return LoweredFunction(
            name=self.name,
            args=tuple(ordered),
            roles=tuple(self._roles()),
            workspaces=tuple(workspaces),
            kernels=tuple(kernels),
            target_kind=self.backend.language,
            sizes=self.sizes,
            imports=imported_texts(self.schedule),
        )

    def _seen(self, name: str, left: object) -> None:
        if self.hook is not None:
            self.hook(name, left)

    # Arguments.

    def _places(self) -> list[Place | None]:
        """Return the stage and the output that compute each tensor; None if nothing does."""
        return [self._place(tensor) for tensor in self.tensors]

    def _place(self, tensor: Tensor) -> Place | None:
        if tensor.op not in self.schedule.stage_map and isinstance(tensor.op, PlaceholderOp):
            return None
        stage = self.schedule[tensor]
        if self.shown and stage.attach_type == "inline":
            return None  # `build` refuses it
        return stage, tensor.value_index

    def _kept(self) -> list[Place]:
        """Return the computed stages whose result the caller gets."""
        places = [place for place in self._places() if place is not None]
        self._warn_of_inlined()
        if len(set(self.args)) < len(self.args) or len(set(places)) < len(places):
            names = ", ".join(each.name for each in self.args)
            raise LoweringError(f"{self.name}: an argument is given twice: {names}")
        for stage, _ in places:
            if stage.holds_state or (
                stage.scan is not None and isinstance(stage.op, PlaceholderOp)
            ):
                raise LoweringError(
                    f"{self.name}: {stage.op.name} is no argument, as its memory is the result of "
                    f"{stage.scan.op.name if stage.scan else 'a scan'}; pass that tensor instead"
                )
        self._check_stores({stage for stage, _ in places})
        kept = [place for place in places if not isinstance(place[0].op, PlaceholderOp)]
        kept += self._discarded(places)
        if not kept:
            raise LoweringError(f"{self.name}: the schedule computes nothing, it has inputs only")
        return kept

    def _check_stores(self, given: Collection[Stage]) -> None:
        """Refuse what is stored where it says if that is no argument, or is read or cached."""
        for stage in self.schedule.stages:
            if not isinstance(stage.op, ComputeOp) or written_shape(stage.op) is None:
                continue
            result = stage.op.outputs[0]
            read = any(result in each.op.input_tensors for each in self.schedule.stages)
            if read or stage not in given or as_store(stage.op.body[0]) is None:
                raise LoweringError(
                    f"{self.name}: {stage.op.name} is stored where it says itself; it must be an "
                    "argument that no stage reads, without cache_write"
                )

    def _discarded(self, places: Sequence[Place | None]) -> list[Place]:
        """Return the outputs that are no arguments: computed in a workspace, as TVM does."""
        found = [
            (self.schedule[op], i)
            for op in self.schedule.outputs
            if not isinstance(op, PlaceholderOp)
            for i in range(op.num_outputs)
            if (self.schedule[op], i) not in places
        ]
        for stage, i in found:
            warn_user(
                f"{self.name}: output {stage.op.outputs[i].name} of the schedule is not among the "
                "arguments: it is computed and discarded; add it to the argument list to get it"
            )
        return found

    def _warn_of_inlined(self) -> None:
        for tensor in self.tensors:
            stage = self.schedule.stage_map.get(tensor.op)
            if self.shown and stage is not None and stage.attach_type == "inline":
                warn_user(
                    f"{self.name}: {tensor.name} is an argument, but compute_inline leaves it "
                    "without loops: nothing is stored in it"
                )

    def _argument_buffer(self, tensor: Tensor) -> Buffer:
        whole = written_shape(tensor.op) or tensor.shape
        extents = [as_extent(self.simplifier.form(as_expr(e))) for e in whole]
        shape = tuple([expr_of(self.simplifier, extent) for extent in extents])
        return Buffer(tensor.name, shape, tensor.dtype)

    def _roles(self) -> list[str]:
        return [self._role(each) if self._is_computed(each) else "in" for each in self.args]

    @staticmethod
    def _role(argument: Tensor | Var) -> str:
        """Return the role of a result: what is written in part is given."""
        partly = isinstance(argument, Tensor) and written_shape(argument.op) is not None
        return "inout" if partly else "out"

    def _is_computed(self, argument: Tensor | Var) -> bool:
        place = self._place(argument) if isinstance(argument, Tensor) else None
        return place is not None and not isinstance(place[0].op, PlaceholderOp)

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
            kernels = copies_together(kernels)
        self._seen("kernels", kernels)
        return kernels

    def _draft(
        self, plan: Plan, number: int, stage: Stage, params: Sequence[Buffer | Var]
    ) -> Draft:
        threads = [t for (root, _), t in plan.threads.items() if root is stage]
        if not self.shown:
            self._check_launchable(plan, stage)
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
        """Return why the loops of a stage are no kernel yet; empty if they are one."""
        if not self.shown:
            return ""
        if is_unattached(stage):
            return unattached(stage)
        if not _binds_threads_of(plan, stage):
            return unbound(stage)
        return reads_across_blocks(plan, self.simplifier, stage)

    def _check_launchable(self, plan: Plan, stage: Stage) -> None:
        if not _binds_threads_of(plan, stage):
            raise LoweringError(unbound(stage))
        waits = reads_across_blocks(plan, self.simplifier, stage)
        if waits:
            raise LoweringError(waits)


def _binds_threads_of(plan: Plan, root: Stage) -> bool:
    """Return whether any stage of a kernel is bound, be it to a single thread."""
    return root.names_threads or any(
        attr.thread is not None
        for stage, stage_plan in plan.stages.items()
        if stage_plan.root is root
        for attr in stage.iter_attrs.values()
    )
