"""Bound inference: which region of each tensor is computed, in which loops, on which conditions.

Stages are visited from the outputs to the arguments. The region of a stage that is attached
inside a loop of its reader is what the reads made inside that loop cover, while the loops outside
keep their values. Memory decides about threads: a buffer in shared memory must hold what all
threads of the block read, what is local only what one thread reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.errors import LoweringError
from autotune.ir.analysis_affine import Affine, constant
from autotune.ir.expr import Expr, IntImm, IterVar, ProducerLoad, Range, Var
from autotune.ir.visitor import reads_in
from autotune.lowering.attachments import attach_chain, attachment, check_reader, thread_axis
from autotune.lowering.axes import axis_values, loop_extents, overrun_conditions
from autotune.lowering.bodies import BodySimplifier, reads_of
from autotune.lowering.extents import Extent, as_form, axis_extent, expr_of
from autotune.lowering.extern_plan import extern_plan, thread_axes
from autotune.lowering.memory import memory_of
from autotune.lowering.plan import Body, Plan, StagePlan
from autotune.lowering.regions import Region, clip, cover, relax, whole
from autotune.lowering.scan_plan import check_steps, scan_plan
from autotune.lowering.shared_work import beyond_tensor, check_shared_work, reads_own_block
from autotune.lowering.thread_axes import ThreadAxes
from autotune.lowering.zero_padding import axes_of_operands, zero_beyond
from autotune.te.extern import ExternOp
from autotune.te.schedule import Schedule
from autotune.te.stage import Stage
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp, ScanOp

Read = tuple[StagePlan, ProducerLoad]


def infer_bounds(
    schedule: Schedule,
    simplifier: BodySimplifier,
    kept: Sequence[Stage],
    gpu: bool,
    shown: bool = False,
) -> Plan:
    """Plan all stages that are computed.

    Args:
        schedule: of the stages.
        simplifier: of the lowering.
        kept: the stages whose result the caller gets.
        gpu: whether kernels run on a GPU.
        shown: whether the loops are printed only, so that stages may not be attached yet.
    """
    return _Inference(schedule, simplifier, set(kept), gpu, shown).run()


class _Inference:
    """The state of one inference: plans and reads found so far."""

    def __init__(
        self,
        schedule: Schedule,
        simplifier: BodySimplifier,
        kept: set[Stage],
        gpu: bool,
        shown: bool,
    ) -> None:
        self.schedule = schedule
        self.simplifier = simplifier
        self.kept = kept
        self.gpu = gpu
        self.shown = shown
        self.plans: dict[Stage, StagePlan] = {}
        self.threads = ThreadAxes(simplifier)
        self.reads: dict[Stage, list[Read]] = {}
        # Stages that compute, and read, beyond their tensors, with the conditions that they omit.
        self.unclipped: dict[Stage, list[Expr]] = {}
        # Those of them whose sums run on over zeros, with which what they read is filled.
        self.over_zeros: set[Stage] = set()

    def run(self) -> Plan:
        """Plan stage by stage, readers before what they read."""
        for stage in reversed(self.schedule.stages):
            if isinstance(stage.op, PlaceholderOp):
                continue
            if stage.attach_type == "inline":
                self._check_inlined(stage)
            elif stage in self.kept or stage in self.reads:
                self._add(stage)
        threads = self.threads
        plan = Plan(self.schedule, self.gpu, self.plans, threads.launched, threads.virtual)
        check_steps(plan, self.simplifier)
        return plan

    def _check_inlined(self, stage: Stage) -> None:
        if stage in self.kept:
            raise LoweringError(
                f"compute_inline: {stage.op.name} is an output or argument of the function, so it "
                "has to be stored; do not inline it"
            )

    def _add(self, stage: Stage) -> None:
        self.plans[stage] = self._planned(stage)
        self._note_reads(self.plans[stage])

    def _planned(self, stage: Stage) -> StagePlan:
        op = stage.op
        if isinstance(op, ScanOp):
            return self._planned_scan(stage, op)
        if isinstance(op, ExternOp):
            for axis, extent in thread_axes(op, self.gpu):
                self.threads.bind(stage, stage, axis, axis, extent)
            return extern_plan(stage, op, self.simplifier.stage_of)
        assert isinstance(op, ComputeOp)
        return self._planned_compute(stage, op)

    def _planned_compute(self, stage: Stage, op: ComputeOp) -> StagePlan:
        chain = list(attach_chain(stage))
        root = chain[-1][0] if chain else stage
        outside = self._outside(stage)
        scope = memory_of(stage, root, self.gpu, self.shown)
        regions = self._regions(stage, scope, outside)
        roots = {axis: region.extent for axis, region in zip(op.axis, regions, strict=True)}
        roots |= {axis: self._extent(op, axis) for axis in op.reduce_axis}
        bound = [leaf for leaf in stage.leaf_iter_vars if thread_axis(stage, leaf) is not None]
        extents = loop_extents(self.simplifier, stage.relations, roots, bound)
        loops, threads = self.threads.loops(stage, root, extents)
        kept = stage in self.kept or stage.holds_state
        if self.gpu and root is not stage and not kept:
            check_shared_work(stage, scope, regions, threads)
        values = axis_values(self.simplifier, stage.relations, extents, loops)
        overruns = overrun_conditions(self.simplifier, stage.relations, extents, values)
        edges = self._edges(op, regions, values)
        body = self.simplifier.body(op, self._environment(op, regions, values))
        if edges and any(each.stage in self.over_zeros for each, _ in self.reads.get(stage, ())):
            body, edges = zero_beyond(self.simplifier, body, edges), []
        private = self.gpu and scope == "local" and not kept
        if private:
            edges = self._asked(stage, body, edges, outside)
        ends = {axis: each for axis, each in overruns if axis.kind == "reduce"}
        if private and stage.computes_whole_tiles and ends:
            known = axes_of_operands(self.simplifier, stage, body, values, extents, self.kept)
            if ends.keys() <= known:
                self.over_zeros.add(stage)
                self.unclipped.setdefault(stage, []).extend(ends.values())
                overruns = [pair for pair in overruns if pair[0] not in ends]
        conditions = [*(condition for _, condition in overruns), *edges]
        return StagePlan(
            stage=stage,
            root=root,
            scope="global" if kept else scope,
            compact=root is not stage and not kept,
            regions=regions,
            extents=extents,
            loops=loops,
            threads=threads,
            values=values,
            conditions=tuple(c for c in conditions if not isinstance(c, IntImm)),
            outside=outside,
            body=body,
        )

    def _asked(
        self, stage: Stage, body: Body, edges: list[Expr], outside: frozenset[Var]
    ) -> list[Expr]:
        """Return those conditions at the ends of a tile in registers that have to be asked."""
        is_whole = stage.computes_whole_tiles
        # All threads of a warp have to take part in an instruction.
        asked = [edge for edge in edges if is_whole and self.threads.is_uniform(edge, outside)]
        if asked == edges:
            return edges
        if reads_own_block(self.simplifier, body, self.kept):
            # What lies beyond the tensor is computed too, which costs less than to ask: nobody
            # reads it, and what it is computed from has memory as it is not clipped.
            self.unclipped[stage] = [edge for edge in edges if edge not in asked]
            return asked
        if is_whole:
            raise beyond_tensor(stage)
        return edges

    def _planned_scan(self, stage: Stage, op: ScanOp) -> StagePlan:
        roots = {axis: self._extent(op, axis) for axis in op.axis}
        bound = [leaf for leaf in stage.leaf_iter_vars if thread_axis(stage, leaf) is not None]
        roots |= {leaf: self._extent(op, leaf) for leaf in bound}
        extents = loop_extents(self.simplifier, stage.relations, roots, bound)
        loops, threads = self.threads.loops(stage, stage, extents)
        return scan_plan(self.simplifier, stage, op, extents, loops, threads)

    def _note_reads(self, plan: StagePlan) -> None:
        for load in reads_of(plan.body):
            producer = self.simplifier.stage_of[load.tensor.op]
            self.reads.setdefault(producer, []).append((plan, load))

    def _environment(
        self, op: ComputeOp, regions: Sequence[Region], values: dict[IterVar, Affine]
    ) -> dict[Var, Affine]:
        env = {}
        for axis, region in zip(op.axis, regions, strict=True):
            env[axis.var] = self.simplifier.add(region.low, values[axis])
        for axis in op.reduce_axis:
            low = self.simplifier.form(axis.dom.min) if axis.dom is not None else constant(0)
            env[axis.var] = self.simplifier.add(low, values[axis])
        return env

    def _edges(
        self, op: ComputeOp, regions: Sequence[Region], values: dict[IterVar, Affine]
    ) -> list[Expr]:
        """Return the conditions that keep a region inside its tensor, where it may reach out."""
        found = []
        for axis, region in zip(op.axis, regions, strict=True):
            extent = self._extent(op, axis)
            index = self.simplifier.add(region.low, values[axis])
            if region.low.bounds[0] < 0:
                found.append(self.simplifier.condition(">=", index))
            if self._reaches_out(region, extent):
                found.append(self.simplifier.compare("<", index, as_form(extent)))
        return [each for each in found if not isinstance(each, IntImm)]

    def _extent(self, op: Operation, axis: IterVar) -> Extent:
        return axis_extent(self.simplifier, op.name, axis)

    def _reaches_out(self, region: Region, extent: Extent) -> bool:
        """Return whether a region may end behind its tensor."""
        if isinstance(region.extent, int) and isinstance(extent, int):
            return region.low.bounds[1] + region.extent > extent
        end = self.simplifier.add(region.low, as_form(region.extent))
        return self.simplifier.sizes.may_exceed(self.simplifier, end, extent)

    # Where a stage is computed, and where its result lives.

    def _outside(self, stage: Stage) -> frozenset[Var]:
        if stage.attach_type != "at":
            return frozenset()
        target, at = attachment(stage)
        plan = self.plans.get(target)
        if plan is None:
            raise LoweringError(
                f"compute_at: {stage.op.name} is attached to {target.op.name}, which is inlined, "
                "never read, or attached inside it; attach it to a stage that reads it"
            )
        if at not in target.leaf_iter_vars:
            raise LoweringError(
                f"compute_at: {stage.op.name} is attached to axis {at.var.name!r} of "
                f"{target.op.name}, which was split, fused or replaced since; attach it last"
            )
        position = target.leaf_iter_vars.index(at)
        around = [plan.loops[leaf] for leaf in target.leaf_iter_vars[: position + 1]]
        return plan.outside.union(*[form.vars for form in around])

    def _regions(self, stage: Stage, scope: str, outside: frozenset[Var]) -> tuple[Region, ...]:
        op = stage.op
        assert isinstance(op, ComputeOp)
        extents = [self._extent(op, axis) for axis in op.axis]
        if stage.attach_type != "at":
            return tuple(map(whole, extents))
        regions: list[Region | None] | None = None
        for reader, load in self.reads.get(stage, ()):
            check_reader(stage, reader.stage)
            part = [self._relaxed(index, scope, outside) for index in load.indices]
            regions = part if regions is None else list(map(self._cover, regions, part))
        found: list[Region | None] = regions or [None] * len(extents)
        all_known = [r or whole(extent) for r, extent in zip(found, extents, strict=True)]
        readers = {reader.stage for reader, _ in self.reads.get(stage, ())}
        unclipped = readers & self.unclipped.keys()
        if unclipped and None not in found:
            return tuple(all_known)
        for each in unclipped:  # which have to ask after all: the memory ends with the tensor
            plan, edges = self.plans[each], self.unclipped.pop(each)
            self.over_zeros.discard(each)
            self.plans[each] = replace(plan, conditions=(*plan.conditions, *edges))
        pairs = zip(all_known, extents, strict=True)
        return tuple(clip(self.simplifier, region, extent) for region, extent in pairs)

    def _cover(self, a: Region | None, b: Region | None) -> Region | None:
        return None if a is None or b is None else cover(self.simplifier, a, b)

    def _relaxed(self, index: Expr, scope: str, outside: frozenset[Var]) -> Region | None:
        form = self.simplifier.form_of(index)
        if not form.is_plain and reads_in(index):
            # What is read from memory at run time is no bound to compute by.
            return None
        ranged = {var for var in form.vars if self.threads.is_ranged(var, scope, outside)}
        return relax(self.simplifier, self.simplifier.sizes, form, ranged)


def infer_bound(schedule: Schedule) -> dict[IterVar, Range]:
    """Return the range of every axis of every stage that is computed, by axis.

    The ranges of a stage attached inside a loop may name the loops around it.
    """
    simplifier = BodySimplifier(schedule.stage_map)
    outputs = [schedule[op] for op in schedule.outputs]
    plan = infer_bounds(schedule, simplifier, outputs, schedule.binds_threads(), shown=True)
    found: dict[IterVar, Range] = {}
    for stage, one in plan.stages.items():
        for axis, extent in one.extents.items():
            found[axis] = Range(0, expr_of(simplifier, extent))
        for axis, region in zip(stage.op.axis, one.regions, strict=True):
            low, size = simplifier.expr(region.low), expr_of(simplifier, region.extent)
            found[axis] = Range(low, size)
    return found
