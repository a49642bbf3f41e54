"""Sums over what has zeros between its elements: only the terms that are not zero are left.

A transposed convolution is defined as a sum over images with zeros between their elements
("dilated"): of a stride of 2 by 2 three of four terms are products of zero. Which they are depends
on the place of a result by the remainder of its index, its phase, so in a cache with a dimension
for phases each sum has its own terms (a "sub-pixel convolution"; Shi et al., 2016)::

    for h: D[h] = A[h // 2] if h % 2 == 0 else 0
    for h, k: C[h] += D[h + k] * w[k]
    ->
    for h: D[h] = A[h]
    for o, p, k: C.local[o, p] += D[o + k + (p + 1) // 2] * w[2 * k + p]
    for h: C[h] = C.local[h // 2, h % 2]

Zeros times infinity are left out too: results that were NaN only by these are not any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.errors import ScheduleError
from autotune.ir import (
    EQ,
    LT,
    Add,
    And,
    Cast,
    Conditional,
    Expr,
    FloatImm,
    FloorMod,
    IntImm,
    IterVar,
    Mul,
    ProducerLoad,
    Range,
    Reduce,
    Rewriter,
    Sub,
    TruncMod,
    Var,
    as_expr,
    const,
    substitute,
)
from autotune.ir.structure import variables, walk
from autotune.ir.visitor import reads_in
from autotune.te.intrinsics import if_then_else
from autotune.te.relation import extent_of
from autotune.te.stage_state import ScheduleOwner, StageState
from autotune.te.tensor import ComputeOp, Tensor
from autotune.utils.math import ceil_div


@dataclass(frozen=True)
class Phase:
    """A dimension of a tensor that is zero but for every few places, along which a sum runs.

    Attributes:
        dimension: of the tensor, whose index is the sum of the two axes.
        data: the axis of results.
        over: the axis of the sum.
        stride: from one place to the next.
        first: the first place, less than the stride.
    """

    dimension: int
    data: IterVar
    over: IterVar
    stride: int
    first: int

    @property
    def results(self) -> int:
        """Results of one phase."""
        return ceil_div(extent_of(self.data) or 1, self.stride)

    @property
    def terms(self) -> int:
        """Terms of the sum of one phase that may be other than zero."""
        return ceil_div(extent_of(self.over) or 1, self.stride)

    @property
    def places(self) -> int:
        """Places that are read."""
        return self.results + self.terms - (self.first == self.stride - 1)


@dataclass(frozen=True)
class Phases:
    """What a sum reads with zeros between.

    Attributes:
        load: the read.
        phases: of its dimensions.
    """

    load: ProducerLoad
    phases: tuple[Phase, ...]

    @property
    def tensor(self) -> Tensor:
        """The tensor with zeros between."""
        tensor: Tensor = self.load.tensor
        return tensor

    @property
    def divide_terms(self) -> bool:
        """Whether all phases have as many terms, so that no condition is asked of them."""
        return not any((extent_of(each.over) or 1) % each.stride for each in self.phases)


def phases_of(op: object) -> Phases | None:
    """Returns what a sum of products reads with zeros between its elements; None if nothing."""
    body = op.body[0] if isinstance(op, ComputeOp) and len(op.body) == 1 else None
    if not isinstance(op, ComputeOp) or not isinstance(body, Reduce):
        return None
    if body.combiner.name != "sum" or len(body.sources) != 1 or body.init:
        return None
    if not isinstance(body.condition, IntImm):
        return None
    loads = reads_in(*body.sources)
    for load in _factors(body.sources[0]):
        alone = sum(each.tensor is load.tensor for each in loads) == 1
        phases = _phases(op, load) if alone else []
        if phases:
            return Phases(load, tuple(phases))
    return None


def _factors(value: Expr) -> Iterator[ProducerLoad]:
    """Yield the reads without which a term is zero."""
    match value:
        case Mul(a, b):
            yield from _factors(a)
            yield from _factors(b)
        case Cast(inner):
            yield from _factors(inner)
        case ProducerLoad():
            yield value
        case _:
            return


def _phases(op: ComputeOp, load: ProducerLoad) -> list[Phase]:
    source = load.tensor.op
    if not isinstance(source, ComputeOp) or source.reduce_axis or len(source.body) != 1:
        return []
    apart = {axis: (n, first) for axis, n, first in _apart(source.body[0])}
    found: list[Phase] = []
    for i, (own, index) in enumerate(zip(source.axis, load.indices, strict=True)):
        if own.var not in apart or not isinstance(index, Add):
            continue
        pair = _axes(op, index)
        if pair is None or not _is_alone(op, pair, load, index):
            continue
        stride, first = apart[own.var]
        found.append(Phase(i, *pair, stride, first))
    return found


def _apart(value: Expr) -> Iterator[tuple[Var, int, int]]:
    """Yield variables with the strides and first places where alone a value is not zero."""
    if isinstance(value, Conditional) and _is_zero(value.other):
        for each in _conjuncts(value.cond):
            match each:
                case EQ(FloorMod(a, IntImm(n)) | TruncMod(a, IntImm(n)), IntImm(rest)) if n > 1:
                    yield from ((var, n, (rest - plus) % n) for var, plus in _shifted(a))
        yield from _apart(value.then)
    elif isinstance(value, ProducerLoad):
        op = value.tensor.op
        if isinstance(op, ComputeOp) and not op.reduce_axis and len(op.body) == 1:
            axes: dict[Var, Expr] = {
                axis.var: at for axis, at in zip(op.axis, value.indices, strict=True)
            }
            yield from _apart(substitute(op.body[0], axes))


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, And):
        yield from _conjuncts(condition.a)
        yield from _conjuncts(condition.b)
    else:
        yield condition


def _shifted(index: Expr) -> Iterator[tuple[Var, int]]:
    """Yield the variable of an index and what is added to it, if it is such a sum."""
    match index:
        case Var():
            yield index, 0
        case Add(a, IntImm(n)) | Add(IntImm(n), a):
            yield from ((var, plus + n) for var, plus in _shifted(a))
        case Sub(a, IntImm(n)):
            yield from ((var, plus - n) for var, plus in _shifted(a))


def _is_zero(value: Expr) -> bool:
    if isinstance(value, Cast):
        return _is_zero(value.value)
    return isinstance(value, IntImm | FloatImm) and value.value == 0


def _axes(op: ComputeOp, index: Add) -> tuple[IterVar, IterVar] | None:
    """Return the axes of data and of the sum that an index adds; None if it adds others."""
    for a, b in ((index.a, index.b), (index.b, index.a)):
        data = next((axis for axis in op.axis if axis.var is a), None)
        over = next((axis for axis in op.reduce_axis if axis.var is b), None)
        if data is None or over is None:
            continue
        begin = [0 if axis.dom is None else axis.dom.min for axis in (data, over)]
        plain = all(isinstance(n, IntImm) and n.value == 0 for n in begin)
        constant = extent_of(data) is not None and extent_of(over) is not None
        return (data, over) if plain and constant else None
    return None


def _is_alone(
    op: ComputeOp, pair: tuple[IterVar, IterVar], load: ProducerLoad, index: Add
) -> bool:
    """Return whether the axis of data is used in that index alone, that of the sum in no other."""
    data, over = pair
    others = variables(*[each for each in load.indices if each is not index])
    return list(walk(*op.body)).count(data.var) == 1 and over.var not in others


@dataclass(frozen=True)
class InPhases:
    """The operations by which a sum leaves out zeros.

    Attributes:
        source: the stage of what has zeros between its elements.
        packed: that without them.
        cache: which sums in phases.
        copy: which puts the results in order.
    """

    source: StageState
    packed: ComputeOp
    cache: ComputeOp
    copy: ComputeOp


def make_phases(schedule: ScheduleOwner, stage: StageState, scope: str) -> InPhases:
    """Return the operations in place of a sum over what has zeros between its elements."""
    op = stage.check_compute("phases")
    found = phases_of(op)
    if found is None:
        raise _refusal(
            op.name,
            "expected a sum of products of a tensor at the sum of two axes, which is zero but for "
            "every few of these places",
        )
    source = schedule.stage_map[found.tensor.op]
    readers = [each.name for each in schedule.stages if _reads(schedule, each, source)]
    if source.is_output or readers != [stage.name]:
        raise _refusal(op.name, f"expected that it alone reads {source.name}, got {readers}")
    for each in (stage, source):
        if each.is_scheduled() or each.attached():
            raise _refusal(op.name, f"{each.name} is scheduled already; call this first")
    packed = _packed(source, found.phases)
    cache = _in_phases(op, found, packed.outputs[0], scope)
    at: list[Expr] = []
    strides = {phase.data: phase.stride for phase in found.phases}
    for axis in op.axis:
        n = strides.get(axis)
        at += [axis.var] if n is None else [axis.var // n, axis.var % n]
    copy = ComputeOp(op.name, op.tag, {}, op.axis, (ProducerLoad(cache.outputs[0], tuple(at)),))
    return InPhases(source, packed, cache, copy)


def _reads(schedule: ScheduleOwner, reader: StageState, source: StageState) -> bool:
    return any(schedule.stage_map[each.op] is source for each in reader.op.input_tensors)


def _packed(source: StageState, phases: tuple[Phase, ...]) -> ComputeOp:
    """Return an operation without the zeros between its elements."""
    op = source.check_compute("phases")
    axes, places = list(op.axis), dict[Var, Expr]()
    condition: Expr = as_expr(True)
    for phase in phases:
        old = op.axis[phase.dimension]
        axes[phase.dimension] = new = _axis(old.name, phase.places, "data")
        places[old.var] = at = new.var * phase.stride + phase.first
        # Phases with fewer results, or fewer terms, would read beyond the end.
        extent, last = extent_of(old), (phase.places - 1) * phase.stride + phase.first
        if extent is None or last >= extent:
            condition = And.fold(condition, LT.fold(at, as_expr(old.extent)))
    value = substitute(op.body[0], places)
    if not isinstance(condition, IntImm):
        value = if_then_else(condition, value, const(0, value.dtype))
    return ComputeOp(op.name, op.tag, op.attrs, tuple(axes), (value,))


def _in_phases(op: ComputeOp, found: Phases, packed: Tensor, scope: str) -> ComputeOp:
    """Return the sum with dimensions for phases, over the terms of each."""
    body = op.body[0]
    assert isinstance(body, Reduce)
    data, over = dict[IterVar, list[IterVar]](), dict[IterVar, IterVar]()
    values: dict[Var, Expr] = {}
    indices = list(found.load.indices)
    condition: Expr = as_expr(True)
    for phase in found.phases:
        n, first, name = phase.stride, phase.first, phase.data.name
        outer, own = _axis(f"{name}.o.c", phase.results, "data"), _axis(f"{name}.i.c", n, "data")
        term = _axis(phase.over.name, phase.terms, "reduce")
        data[phase.data], over[phase.over] = [outer, own], term
        # Behind the first place results of a phase begin at the next one.
        later = (own.var + (n - 1 - first)) // n if first < n - 1 else as_expr(0)
        values[phase.over.var] = at = term.var * n + _first_term(own.var, n, first)
        indices[phase.dimension] = outer.var + term.var + later
        if (extent_of(phase.over) or 0) % n:
            condition = And.fold(condition, LT.fold(at, phase.over.extent))
    axes: list[IterVar] = []
    for axis in op.axis:
        new = data.get(axis) or [_axis(f"{axis.name}.c", axis.extent, "data")]
        values |= {axis.var: new[0].var} if axis not in data else {}
        axes += new
    read = ProducerLoad(packed, tuple(indices))
    source = substitute(_ReadPacked(found.load, read).rewrite(body.sources[0]), values)
    reduced = tuple([over.get(axis, axis) for axis in body.axes])
    total = Reduce(body.combiner, (source,), reduced, condition)
    return ComputeOp(f"{op.name}.{scope}", op.tag, op.attrs, tuple(axes), (total,))


def _first_term(phase: Var, stride: int, first: int) -> Expr:
    """Return which term of a phase is the first: that many behind its first result."""
    if stride == 2:
        return first - phase if first else phase
    return (phase * (stride - 1) + first) % stride


def _axis(name: str, extent: object, kind: str) -> IterVar:
    return IterVar(Var(name, "int32", kind), Range(0, extent), kind)


class _ReadPacked(Rewriter):
    """Reads what has no zeros between in place of what has."""

    def __init__(self, old: ProducerLoad, new: ProducerLoad) -> None:
        self.old, self.new = old, new

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Read that."""
        return self.new if node.tensor is self.old.tensor else node


def _refusal(name: str, why: str) -> ScheduleError:
    return ScheduleError(f"phases({name}): {why}")
