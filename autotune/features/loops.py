"""The loops of a schedule and their accesses, from which loop features are computed.

Bounds are inferred as for lowering, then the loops are listed as the schedule has them: loops of
one iteration stay, nothing is vectorized, unrolled or interleaved, and reductions have no loops
that set first values. So the loops of a template are the same ones for all its configurations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import LoweringError
from autotune.features.access import AccessVisitor, ArithmeticCount, steps_of
from autotune.ir import Expr, ForKind, IterVar, Var
from autotune.ir.analysis_affine import Affine
from autotune.ir.stmt import Buffer
from autotune.lowering import (
    BodySimplifier,
    Plan,
    StagePlan,
    TensorStorage,
    TensorStorages,
    infer_bounds,
    known,
)
from autotune.te import Schedule
from autotune.te.stage import Stage
from autotune.te.tensor import PlaceholderOp, ScanOp, Tensor

# How a loop is carried out; features hold the position in this list as a one-hot code.
LOOP_KINDS = (
    "blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z",
    "unrolled", "vectorized", "parallel", "serial", "vthread",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop.

    Attributes:
        name: of its axis.
        stage: name of the stage whose loop it is.
        var: its variable in printed loops; the thread axis where the loop is bound to one.
        extent: iterations.
        depth: loops around it, itself included.
        kind: one of `LOOP_KINDS`.
        count: floating-point operations right inside it.
    """

    name: str
    stage: str
    var: Var
    extent: int
    depth: int
    kind: str
    count: ArithmeticCount


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write in the text of the loops.

    Attributes:
        name: of the tensor, numbered in the order of the text: ``A_0``.
        loops: positions of the loops around it, from the outside in.
        strides: how far one step of each of these loops moves it, in elements; 0 for not at all.
    """

    name: str
    loops: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class LoopNest:
    """All loops of a function in the order of the text, and the accesses inside them."""

    loops: tuple[Loop, ...]
    accesses: tuple[Access, ...]

    def __str__(self) -> str:
        lines = []
        for i, loop in enumerate(self.loops):
            lines.append(
                f"{'  ' * (loop.depth - 1)}for {loop.name} in 0..{loop.extent}  # {loop.kind}"
            )
            own = [access.name for access in self.accesses if access.loops[-1:] == (i,)]
            if own:
                lines.append(f"{'  ' * loop.depth}{' '.join(own)}")
        return "\n".join(lines)


def loop_nest(schedule: Schedule, args: Sequence[Tensor]) -> LoopNest:
    """List the loops of a schedule.

    Args:
        schedule: it is not changed.
        args: the tensors that the function takes, inputs and outputs.

    Raises:
        LoweringError: bounds cannot be inferred; the message says for which stage and why.
    """
    return _Lister(*planned(schedule, args)).listed()


def planned(
    schedule: Schedule, args: Sequence[Tensor]
) -> tuple[Plan, BodySimplifier, TensorStorages]:
    """Infer the bounds of a schedule; return the plan, and what reads bodies and buffers in it.

    Raises:
        LoweringError: bounds cannot be inferred; the message says for which stage and why.
    """
    simplifier = BodySimplifier(schedule.stage_map)
    given = _buffers_of(schedule, args)
    kept = [stage for stage, _ in given if not isinstance(stage.op, PlaceholderOp)]
    plan = infer_bounds(schedule, simplifier, kept, is_bound(schedule))
    return plan, simplifier, TensorStorages(plan, simplifier, schedule.stage_map, given)


def attached_stages(plan: Plan) -> dict[tuple[Stage, IterVar | None], list[Stage]]:
    """Return which stages are computed within a loop of another, in the order of the schedule."""
    attached: dict[tuple[Stage, IterVar | None], list[Stage]] = {}
    for stage in plan.schedule.stages:
        if stage in plan.stages and stage.attachment is not None:
            attached.setdefault(stage.attachment, []).append(stage)
    return attached


def _buffers_of(schedule: Schedule, args: Sequence[Tensor]) -> dict[tuple[Stage, int], Buffer]:
    """Return the buffers of what a function takes, by stage and number of the output."""
    return {(schedule[tensor], tensor.value_index): _buffer(tensor) for tensor in args}


def is_bound(schedule: Schedule) -> bool:
    """Return whether loops of a schedule are bound to thread axes."""
    attributes = [attr for stage in schedule.stages for attr in stage.iter_attrs.values()]
    return any(attr.kind is ForKind.THREAD for attr in attributes)


def _buffer(tensor: Tensor) -> Buffer:
    shape = tuple(extent for extent in tensor.shape if isinstance(extent, int))
    if len(shape) < len(tensor.shape):
        raise LoweringError(
            f"{tensor.name}: its shape {tensor.shape} must be constant to compute loop features"
        )
    return Buffer(tensor.name, shape, tensor.dtype)


@dataclass(frozen=True)
class _Around:
    """The loops around a place: their positions, their variables, the thread axes among them."""

    loops: tuple[int, ...] = ()
    vars: tuple[Var | None, ...] = ()
    axes: frozenset[str | IterVar] = frozenset()


class _Lister:
    """Goes through the stages of a plan in the order of the text."""

    def __init__(self, plan: Plan, simplifier: BodySimplifier, storages: TensorStorages) -> None:
        self.plan = plan
        self.simplifier = simplifier
        self.storages = storages
        self.loops: list[Loop] = []
        self.accesses: list[Access] = []
        self.numbers: Counter[str] = Counter()
        self.attached = attached_stages(plan)

    def listed(self) -> LoopNest:
        """Return all loops and accesses."""
        for stage in self.plan.schedule.stages:
            plan = self.plan.stages.get(stage)
            if plan is not None and plan.root is stage:
                self._stage(plan, _Around())
        return LoopNest(tuple(self.loops), tuple(self.accesses))

    def _stage(self, plan: StagePlan, around: _Around) -> None:
        for leaf in plan.stage.leaf_iter_vars:
            around = self._opened(plan, leaf, around)
            for child in self.attached.get((plan.stage, leaf), ()):
                self._stage(self.plan.stages[child], around)
        if not isinstance(plan.stage.op, ScanOp):  # which computes nothing itself
            self._body(plan, around)

    def _opened(self, plan: StagePlan, leaf: IterVar, around: _Around) -> _Around:
        """Enter a loop; a thread axis that an outer loop is bound to is no further loop."""
        attr = plan.stage.attr(leaf)
        kind, var, axes = attr.kind.value, leaf.var, around.axes
        if attr.thread is not None:
            var = attr.thread.var
            kind = attr.thread.thread_tag if attr.kind is ForKind.THREAD else kind
            axis = kind if attr.kind is ForKind.THREAD else attr.thread
            if axis in axes:
                return around
            axes = axes | {axis}
        (extent,) = known([plan.extents[leaf]], f"features of {plan.stage.name}")
        place, depth = len(self.loops), len(around.loops) + 1
        self.loops.append(
            Loop(leaf.name, plan.stage.name, var, extent, depth, kind, ArithmeticCount())
        )
        own = next(iter(plan.loops[leaf].vars), None)
        return _Around((*around.loops, place), (*around.vars, own), axes)

    def _body(self, plan: StagePlan, around: _Around) -> None:
        body, outputs = plan.body, plan.stage.op.outputs
        count = self.loops[around.loops[-1]].count if around.loops else ArithmeticCount()
        reader = _BodyReader(self, around, count)
        places = [(tensor.name, self._written(plan, tensor)) for tensor in outputs]
        values = body.values
        if body.reduction is not None:
            combiner = body.reduction.combiner
            reader.partial = dict(zip(combiner.lhs, places, strict=True))
            reader.terms = dict(zip(combiner.rhs, values, strict=True))
            values = combiner.result
        if body.condition is not None:
            reader.visit(body.condition)
        for (name, index), value in zip(places, values, strict=True):
            self.note(name, index, around)
            reader.visit(value)

    def _written(self, plan: StagePlan, tensor: Tensor) -> Affine:
        """Return the flat index of the element that one iteration computes."""
        storage = self.storages.of(tensor)
        indices = [plan.values[axis] for axis in plan.stage.op.axis]
        strides = known(storage.strides, f"features of {tensor.name}")
        parts = list(zip(indices, strides, strict=True))
        if storage.lows is None:
            lows = [region.low for region in plan.regions]
            parts += zip(lows, strides, strict=True)
        return self.simplifier.combine(parts)

    def note(self, name: str, index: Affine, around: _Around) -> None:
        """Note an access to the element ``index`` of a tensor."""
        steps = steps_of(index)
        strides = tuple([steps.get(var, 0) if var is not None else 0 for var in around.vars])
        self.accesses.append(Access(f"{name}_{self.numbers[name]}", around.loops, strides))
        self.numbers[name] += 1


class _BodyReader(AccessVisitor):
    """Reads what one stage computes in its innermost loop."""

    def __init__(self, lister: _Lister, around: _Around, count: ArithmeticCount) -> None:
        super().__init__(count)
        self.lister = lister
        self.around = around
        # Of a reduction: where its result so far is, and what is combined with it.
        self.partial: Mapping[Var, tuple[str, Affine]] = {}
        self.terms: Mapping[Var, Expr] = {}

    def read_tensor(self, tensor: Tensor, indices: Sequence[Expr]) -> None:
        """Note the read of a tensor, and reads that its index makes."""
        storage: TensorStorage = self.lister.storages.of(tensor)
        forms = [self.lister.simplifier.form_of(index) for index in indices]
        self.lister.note(tensor.name, self.lister.storages.flat(storage, forms), self.around)
        for index, form in zip(indices, forms, strict=True):
            if not form.is_plain:
                self.visit(index)

    def read_variable(self, var: Var) -> None:
        """Note the reads behind a variable of a combiner."""
        if var in self.partial:
            name, index = self.partial[var]
            self.lister.note(name, index, self.around)
        elif var in self.terms:
            self.visit(self.terms[var])
