"""The store statements of a lowered schedule: their loops, accesses and arithmetic.

Unlike `loop_nest`, which lists the same loops for all configurations of a template, this keeps
what lowering makes of a schedule: loops of one iteration are gone, a reduction begins with a
statement of its own, and a thread axis is a loop wherever a stage is bound to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from autotune.features.loops import attached_stages, planned
from autotune.ir import Call, Cast, Conditional, Expr, ForKind, IterVar, ProducerLoad, Var
from autotune.ir.analysis_affine import Affine, AtomKind
from autotune.ir.base import BinaryOp, Not
from autotune.ir.dtype import bits_of, is_float
from autotune.ir.expr import Select
from autotune.ir.operators import Add, CompareOp, Extremum, LogicalOp, Mul, Sub
from autotune.ir.visitor import Visitor
from autotune.lowering import BodySimplifier, Plan, StagePlan, TensorStorages, known
from autotune.te import Schedule
from autotune.te.tensor import ScanOp, Tensor

_UNROLL, _EXPLICIT = "auto_unroll_max_step", "unroll_explicit"


@dataclass(frozen=True, eq=False)
class StoreLoop:
    """A loop, or a thread axis that a stage is bound to.

    Attributes:
        var: what counts its iterations; None where nothing depends on them.
        extent: iterations.
        kind: how it is carried out, as `features.loops.LOOP_KINDS` says.
    """

    var: Var | None
    extent: int
    kind: str


@dataclass(frozen=True)
class Touch:
    """An access to an element of a buffer.

    Attributes:
        buffer: its name; buffers of equal names are numbered.
        item: bytes of an element.
        shape: extents of the buffer.
        indices: of the element, by dimension.
        writes: whether it is written.
        strides: elements from one index to the next, by dimension.
        scope: the memory that it is in: ``global``, ``shared``, ``local``.
    """

    buffer: str
    item: int
    shape: tuple[int, ...]
    indices: tuple[Affine, ...]
    writes: bool
    strides: tuple[int, ...]
    scope: str

    @cached_property
    def moving(self) -> frozenset[Var]:
        """The variables with which it moves; what has one index does not."""
        pairs = zip(self.indices, self.shape, strict=True)
        return frozenset().union(*(index.vars for index, extent in pairs if extent > 1))


@dataclass(frozen=True)
class StoreStatement:
    """One statement that stores an element.

    Attributes:
        loops: those around it, from the outside in.
        touches: what it writes, and what it reads.
        counts: operations by kind: ``float_mul``, ``int_addsub``, ``bool_op`` and so on.
        unroll: the nearest limit of unrolling; 0 if there is none.
        explicit: whether loops that are unrolled are written out in the text.
        allocated: how many of the loops are around the place where the buffer comes to be.
        ahead: how many fillings of the buffer are on their way while one is in use.
    """

    loops: tuple[StoreLoop, ...]
    touches: tuple[Touch, ...]
    counts: Mapping[str, int]
    unroll: int
    explicit: bool
    allocated: int
    ahead: int


@dataclass(frozen=True)
class _Around:
    loops: tuple[StoreLoop, ...] = ()
    unroll: int = 0
    explicit: bool = True


def stores_of(schedule: Schedule, args: Sequence[Tensor]) -> list[StoreStatement]:
    """Return the statements that store, in the order of the text.

    Args:
        schedule: it is not changed.
        args: the tensors that the function takes, inputs and outputs.

    Raises:
        LoweringError: bounds cannot be inferred; the message says for which stage and why.
    """
    return _Lister(*planned(schedule, args)).listed()


class _Lister:
    """Goes through the stages of a plan in the order of the text."""

    def __init__(self, plan: Plan, simplifier: BodySimplifier, storages: TensorStorages) -> None:
        self.plan, self.simplifier, self.storages = plan, simplifier, storages
        self.stores: list[StoreStatement] = []
        self.names: dict[Tensor, str] = {}
        self.attached = attached_stages(plan)

    def listed(self) -> list[StoreStatement]:
        """Return all statements."""
        for stage in self.plan.schedule.stages:
            plan = self.plan.stages.get(stage)
            if plan is not None and plan.root is stage:
                self._stage(plan, _Around())
        return self.stores

    def _stage(self, plan: StagePlan, around: _Around) -> None:
        outside, sums = len(around.loops), set(plan.stage.op.reduce_axis)
        begun = plan.body.reduction is None
        for i, leaf in enumerate(plan.stage.leaf_iter_vars):
            if not begun and _of_sum(plan, leaf, sums):
                self._begin(plan, around, plan.stage.leaf_iter_vars[i:], sums, outside)
                begun = True
            around = self._opened(plan, leaf, around)
            for child in self.attached.get((plan.stage, leaf), ()):
                self._stage(self.plan.stages[child], around)
        if not isinstance(plan.stage.op, ScanOp):  # which computes nothing itself
            self._body(plan, around, outside)

    def _opened(self, plan: StagePlan, leaf: IterVar, around: _Around) -> _Around:
        """Enter a loop; one of a single iteration is none, unless threads are bound to it."""
        attr = plan.stage.attr(leaf)
        pragmas = dict(attr.pragmas)
        unroll = int(pragmas.get(_UNROLL, around.unroll))
        explicit = bool(pragmas.get(_EXPLICIT, around.explicit))
        (extent,) = known([plan.extents[leaf]], f"features of {plan.stage.name}")
        kind = attr.kind.value
        if attr.thread is not None and attr.kind is ForKind.THREAD:
            kind = attr.thread.thread_tag
        if extent == 1 and attr.thread is None:
            return _Around(around.loops, unroll, explicit)
        var = next(iter(plan.loops[leaf].vars), None)
        return _Around((*around.loops, StoreLoop(var, extent, kind)), unroll, explicit)

    def _begin(self, plan: StagePlan, around: _Around, leaves: Sequence[IterVar],
               sums: set[IterVar], outside: int) -> None:  # fmt: skip
        """Note the statement that sets what a reduction begins with."""
        for leaf in leaves:
            if not _of_sum(plan, leaf, sums):
                around = self._opened(plan, leaf, around)
        for tensor in plan.stage.op.outputs:
            self._note(plan, around, outside, [self._written(plan, tensor)], Counter())

    def _body(self, plan: StagePlan, around: _Around, outside: int) -> None:
        body = plan.body
        places = [self._written(plan, tensor) for tensor in plan.stage.op.outputs]
        values, reader = body.values, _BodyReader(self)
        if body.reduction is not None:
            combiner = body.reduction.combiner
            reader.partial = dict(zip(combiner.lhs, places, strict=True))
            reader.terms = dict(zip(combiner.rhs, values, strict=True))
            values = combiner.result
        for place, value in zip(places, values, strict=True):
            reader.touches, reader.counts = [place], Counter()
            reader.count_index(place.indices)
            reader.visit(value)
            self._note(plan, around, outside, reader.touches, reader.counts)

    def _note(self, plan: StagePlan, around: _Around, outside: int,
              touches: Sequence[Touch], counts: Mapping[str, int]) -> None:  # fmt: skip
        stage = plan.stage
        allocated = outside if plan.root is not stage else 0
        ahead = max(stage.pipeline_stages - 1, int(stage.double_buffered))
        known_counts = dict(counts)
        self.stores.append(
            StoreStatement(
                around.loops,
                tuple(touches),
                known_counts,
                around.unroll,
                around.explicit,
                allocated,
                ahead,
            )
        )

    def _written(self, plan: StagePlan, tensor: Tensor) -> Touch:
        """Return the access to the element that one iteration computes."""
        pairs = zip(plan.stage.op.axis, plan.regions, strict=True)
        combine = self.simplifier.combine
        indices = [combine([(plan.values[axis], 1), (r.low, 1)]) for axis, r in pairs]
        return self.touch(tensor, indices, writes=True)

    def touch(self, tensor: Tensor, indices: Sequence[Affine], writes: bool = False) -> Touch:
        """Return an access to an element of a tensor."""
        if tensor not in self.names:
            same = sum(other.name == tensor.name for other in self.names)
            self.names[tensor] = f"{tensor.name}_{same}" if same else tensor.name
        plan = self.plan.stages.get(self.plan.schedule.stage_map[tensor.op])
        extents: Sequence[object] = tensor.shape
        apart: Mapping[int, tuple[int, int]] = {}
        if plan is not None and plan.compact:
            extents, apart = [region.extent for region in plan.regions], plan.stage.alignments
        shape = tuple(extent if isinstance(extent, int) else 1 for extent in extents)
        item = max(bits_of(tensor.dtype) // 8, 1)
        scope = "global" if plan is None else plan.scope
        strides = _strides(shape, apart)
        return Touch(self.names[tensor], item, shape, tuple(indices), writes, strides, scope)


def _strides(shape: Sequence[int], apart: Mapping[int, tuple[int, int]]) -> tuple[int, ...]:
    """Return strides of a tensor whose rows may be apart (`Stage.storage_align`)."""
    found, stride = [0] * len(shape), 1
    for dimension in reversed(range(len(shape))):
        if dimension in apart:
            factor, offset = apart[dimension]
            stride += (offset - stride) % factor
        found[dimension], stride = stride, stride * shape[dimension]
    return tuple(found)


def _of_sum(plan: StagePlan, leaf: IterVar, sums: set[IterVar]) -> bool:
    """Whether a loop counts steps of a reduction."""
    own = plan.loops[leaf].vars
    return bool(own) and any(own & plan.values[axis].vars for axis in sums)


@dataclass
class _BodyReader(Visitor):
    """Reads what one statement computes."""

    lister: _Lister
    touches: list[Touch] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    # Of a reduction: where its result so far is, and what is combined with it.
    partial: Mapping[Var, Touch] = field(default_factory=dict)
    terms: Mapping[Var, Expr] = field(default_factory=dict)

    def count_index(self, indices: Sequence[Affine]) -> None:
        """Count what finding an element calculates."""
        for form in indices:
            self.counts["int_mul"] += sum(abs(factor) != 1 for factor in form.terms.values())
            self.counts["int_addsub"] += max(len(form.terms) + (form.const != 0) - 1, 0)
            self.counts["int_divmod"] += sum(
                atom.kind in (AtomKind.DIV, AtomKind.MOD) for atom in form.terms
            )

    def visit_ProducerLoad(self, node: ProducerLoad) -> None:
        """Note the read of an element, and what its index reads."""
        forms = [self.lister.simplifier.form_of(index) for index in node.indices]
        self.touches.append(self.lister.touch(node.tensor, forms))
        self.count_index(forms)
        for index, form in zip(node.indices, forms, strict=True):
            if not form.is_plain:
                self.visit(index)

    def visit_Var(self, node: Var) -> None:
        """Note what is behind a variable of a combiner."""
        if node in self.partial:
            known_place = self.partial[node]
            self.touches.append(replace(known_place, writes=False))
        elif node in self.terms:
            self.visit(self.terms[node])

    def visit_BinaryOp(self, node: BinaryOp) -> None:
        """Count an operation."""
        match node:
            case LogicalOp():
                self.counts["bool_op"] += 1
            case Extremum() | CompareOp():
                self._count(node.a.dtype, "cmp")
            case Add() | Sub():
                self._count(node.dtype, "addsub")
            case Mul():
                self._count(node.dtype, "mul")
            case _:
                self._count(node.dtype, "divmod")
        self.visit(node.a)
        self.visit(node.b)

    def visit_Not(self, node: Not) -> None:
        """Count a negation."""
        self.counts["bool_op"] += 1
        self.generic(node)

    def visit_Cast(self, node: Cast) -> None:
        """Visit the converted value."""
        self.generic(node)

    def visit_Call(self, node: Call) -> None:
        """Count a function."""
        self._count(node.dtype, "mathfunc")
        self.generic(node)

    def visit_Conditional(self, node: Conditional) -> None:
        """Count a choice; `if_then_else` counts as a function, as it is one in TVM."""
        if isinstance(node, Select):
            self.counts["select_op"] += 1
        else:
            self._count(node.dtype, "mathfunc")
        self.generic(node)

    def _count(self, dtype: str, what: str) -> None:
        self.counts[f"{'float' if is_float(dtype) else 'int'}_{what}"] += 1
