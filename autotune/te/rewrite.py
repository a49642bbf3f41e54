"""The rewrites of computes behind cache_read, cache_write, rfactor and compute_inline.

A stage's operation is replaced by a new one; other operations may go on reading tensors of the old
one, since a schedule finds the stage by any version of its operation. So nothing cascades.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.errors import ScheduleError
from autotune.ir import (
    LT,
    And,
    Expr,
    IntImm,
    IterVar,
    ProducerLoad,
    Range,
    Reduce,
    Rewriter,
    Var,
    as_expr,
    const,
    substitute,
)
from autotune.ir.operators import IntDivision
from autotune.te.intrinsics import if_then_else
from autotune.te.relation import (
    Extent,
    Relation,
    extent_of,
    overruns,
    pass_down,
    pass_up,
    related_axes,
)
from autotune.te.stage_state import IterAttr, ScheduleOwner, StageState
from autotune.te.tensor import ComputeOp, Tensor

# What copies in another order of dimensions are called.
PERMUTED = "permuted"


class _ReadFrom(Rewriter):
    """Makes reads of one output of a stage reads of another tensor, in an order of dimensions."""

    def __init__(
        self,
        schedule: ScheduleOwner,
        stage: StageState,
        value_index: int,
        new: Tensor,
        order: Sequence[int],
    ) -> None:
        self.stage_map = schedule.stage_map
        self.stage = stage
        self.value_index = value_index
        self.new = new
        self.order = order

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        indices = self.rewrite_all(node.indices)
        tensor = node.tensor
        if self.stage_map[tensor.op] is self.stage and tensor.value_index == self.value_index:
            return ProducerLoad(self.new, tuple([indices[i] for i in self.order]))
        return node if indices is node.indices else ProducerLoad(tensor, indices)


def _with_body(op: ComputeOp, body: tuple[Expr, ...]) -> ComputeOp:
    return ComputeOp(op.name, op.tag, op.attrs, op.axis, body)


def make_cache_read(
    schedule: ScheduleOwner,
    stage: StageState,
    value_index: int,
    name: str,
    readers: Sequence[StageState],
    permuted: Sequence[int] | None = None,
) -> ComputeOp:
    """Return a copying operation with this name, and make the readers read its output.

    Its dimensions are those of the tensor, possibly permuted.
    """
    tensor = stage.op.outputs[value_index]
    primitive = "cache_read" if permuted is None else "permute"
    order = tuple(range(len(tensor.shape)) if permuted is None else permuted)
    if not readers:
        raise ScheduleError(f"{primitive}({tensor.name}): expected at least one reader")
    if sorted(order) != list(range(len(tensor.shape))):
        raise ScheduleError(
            f"permute({tensor.name}): expected the numbers of its {len(tensor.shape)} dimensions, "
            f"each once, got {list(order)}"
        )
    axis = tuple(
        [
            IterVar(Var(f"ax{i}", "int32", "data"), Range(0, tensor.shape[place]), "data")
            for i, place in enumerate(order)
        ]
    )
    load = ProducerLoad(tensor, tuple([axis[order.index(i)].var for i in range(len(order))]))
    cache = ComputeOp(name, "", {}, axis, (load,))
    rewriter = _ReadFrom(schedule, stage, value_index, cache.outputs[0], order)
    new_ops = []
    for reader in readers:
        op = reader.op
        body = rewriter.rewrite_all(op.body) if isinstance(op, ComputeOp) else ()
        if not isinstance(op, ComputeOp) or body is op.body:
            raise ScheduleError(
                f"{primitive}({tensor.name}): {reader.name} does not read {tensor.name}; expected "
                "stages that do"
            )
        new_ops.append(_with_body(op, body))
    for reader, new_op in zip(readers, new_ops, strict=True):
        schedule.replace_op(reader, new_op)
    return cache


def make_cache_write(
    schedule: ScheduleOwner, stage: StageState, scope: str, parts: tuple[int, int] | None = None,
    primitive: str = "cache_write",
) -> tuple[ComputeOp, ComputeOp]:  # fmt: skip
    """Return the operation that computes in the cache, and the one that copies from it.

    The copy keeps the data axes; the cache gets new ones, called ``i.c``, and the reduction axes.
    Of ``parts`` the first is a dimension of which the cache has two, ``i.o.c`` and ``i.i.c``: the
    number of a part, and the place in one of the length that the second says.
    """
    op = stage.check_compute(primitive)
    if stage.is_scheduled() or stage.attached():
        raise ScheduleError(
            f"{primitive}({stage.name}): its loops are scheduled already; call {primitive} first "
            "and schedule the cache that it returns"
        )
    place, length = (None, 1) if parts is None else _checked_parts(op, *parts)
    axis: list[IterVar] = []
    own: list[Expr] = []
    mapping: dict[Var, Expr] = {}
    halves = _Halves({})
    for i, each in enumerate(op.axis):
        if i != place:
            axis.append(_data_axis(f"{each.name}.c", each.dom))
            mapping[each.var] = axis[-1].var
            own.append(each.var)
            continue
        count = (extent_of(each) or length) // length
        outer = _data_axis(f"{each.name}.o.c", Range(0, count))
        inner = _data_axis(f"{each.name}.i.c", Range(0, length))
        axis += [outer, inner]
        mapping[each.var] = outer.var * length + inner.var
        halves = _Halves({each.var: (length, outer.var, inner.var)})
        own += [each.var // length, each.var % length]
    bodies = halves.rewrite_all(op.body)
    body = share_sources(tuple([substitute(each, mapping) for each in bodies]))
    cache = ComputeOp(f"{op.name}.{scope}", op.tag, op.attrs, tuple(axis), body)
    copies = tuple([ProducerLoad(tensor, tuple(own)) for tensor in cache.outputs])
    return cache, ComputeOp(op.name, op.tag, {}, op.axis, copies)


def _data_axis(name: str, dom: Range | None) -> IterVar:
    return IterVar(Var(name, "int32", "data"), dom, "data")


def _checked_parts(op: ComputeOp, dimension: int, length: int) -> tuple[int, int]:
    """Return a dimension and the length of its parts, if these divide it."""
    extent = extent_of(op.axis[dimension]) if 0 <= dimension < len(op.axis) else None
    if extent is None or length < 1 or extent % length:
        raise ScheduleError(
            f"cache_write({op.name}): expected a dimension of a constant number of elements, and "
            f"a length that divides it, got dimension {dimension} and length {length}"
        )
    return dimension, length


class _Halves(Rewriter):
    """Puts axes in place of what a variable is divided by a length, and of what is left then."""

    def __init__(self, of: Mapping[Var, tuple[int, Var, Var]]) -> None:
        self.of = of

    def visit_FloorDiv(self, node: IntDivision) -> Expr:
        """Put the number of a part; what is divided is not negative."""
        return self._half(node, 1)

    def visit_FloorMod(self, node: IntDivision) -> Expr:
        """Put the place in a part."""
        return self._half(node, 2)

    visit_TruncDiv, visit_TruncMod = visit_FloorDiv, visit_FloorMod

    def _half(self, node: IntDivision, which: int) -> Expr:
        """Return an axis, or the node with its operands rewritten."""
        known = self.of.get(node.a) if isinstance(node.a, Var) else None
        if known is not None and isinstance(node.b, IntImm) and node.b.value == known[0]:
            half = known[which]
            assert isinstance(half, Var)
            return half
        return type(node)(self.rewrite(node.a), self.rewrite(node.b))


def share_sources(body: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Let the outputs of one reduction share its sources again after a rewrite."""
    first = body[0]
    if len(body) == 1 or not isinstance(first, Reduce):
        return body
    return tuple(
        [
            Reduce(first.combiner, first.sources, first.axes, first.condition, i, first.init)
            for i in range(len(body))
        ]
    )


class _Inline(Rewriter):
    """Puts the values of inlined stages where these are read."""

    def __init__(self, schedule: ScheduleOwner) -> None:
        self.stage_map = schedule.stage_map

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        indices = self.rewrite_all(node.indices)
        stage = self.stage_map[node.tensor.op]
        if stage.attach_type == "inline":
            op = stage.op
            assert isinstance(op, ComputeOp)
            variables = [axis.var for axis in op.axis]
            mapping = dict(zip(variables, indices, strict=True))
            value: Expr = op.body[node.tensor.value_index]
            return substitute(value, mapping)
        return node if indices is node.indices else ProducerLoad(node.tensor, indices)


def inline_stages(schedule: ScheduleOwner) -> None:
    """Put the inlined stages of a schedule into their readers."""
    inline = [stage for stage in schedule.stages if stage.attach_type == "inline"]
    for stage in inline:
        for other in stage.attached():
            raise ScheduleError(
                f"compute_inline({stage.name}): {other.name} is computed at one of its loops, "
                "which an inlined stage does not have"
            )
    if not inline:
        return
    rewriter = _Inline(schedule)
    for stage in schedule.stages:
        op = stage.op
        if isinstance(op, ComputeOp):
            body = rewriter.rewrite_all(op.body)
            if body is not op.body:
                schedule.replace_op(stage, _with_body(op, share_sources(body)))


@dataclass(frozen=True)
class Factored:
    """The result of `make_rfactor`: both operations, and the loops of the first one's stage."""

    factor_op: ComputeOp
    final_op: ComputeOp
    all_iter_vars: list[IterVar]
    leaf_iter_vars: list[IterVar]
    relations: list[Relation]
    iter_attrs: dict[IterVar, IterAttr]

    def give_loops(self, stage: StageState) -> None:
        """Give the stage of the first operation its loops."""
        stage.all_iter_vars[:] = self.all_iter_vars
        stage.leaf_iter_vars[:] = stage.first_loops[:] = self.leaf_iter_vars
        stage.relations[:] = self.relations
        stage.iter_attrs.update(self.iter_attrs)


def _check_rfactor(stage: StageState, axis: IterVar, factor_axis: int) -> tuple[ComputeOp, int]:
    op = stage.check_compute("rfactor")
    stage.position("rfactor", axis)
    stage.check_plain("rfactor", axis)
    if axis.kind != "reduce":
        raise ScheduleError(f"rfactor({stage.name}): expected a reduction axis, got {axis.name!r}")
    data = [each for each in stage.leaf_iter_vars if each.kind == "data"]
    if data != list(op.axis) or any(each in stage.iter_attrs for each in data):
        raise ScheduleError(
            f"rfactor({stage.name}): its data axes are scheduled already; call rfactor first"
        )
    if stage.attached():
        raise ScheduleError(
            f"rfactor({stage.name}): {stage.attached()[0].name} is computed at one of its loops; "
            "call rfactor first"
        )
    ndim = len(op.axis)
    if not -ndim - 1 <= factor_axis <= ndim:
        raise ScheduleError(
            f"rfactor({stage.name}): factor_axis must be in {-ndim - 1}..{ndim}, got {factor_axis}"
        )
    return op, factor_axis if factor_axis >= 0 else ndim + 1 + factor_axis


def make_rfactor(stage: StageState, axis: IterVar, factor_axis: int) -> Factored:
    """Split a reduction into one that keeps ``axis`` as a dimension, and one over that."""
    op, place = _check_rfactor(stage, axis, factor_axis)
    family = related_axes(stage.relations, axis)
    extents, values, new_axis = _family_values(stage, op, family, axis)
    factor_var = new_axis[axis]
    data = (*op.axis[:place], factor_var, *op.axis[place:])
    untouched = [each for each in op.reduce_axis if each not in family]
    reduce_axes = (*untouched, *[new for old, new in new_axis.items() if old is not axis])
    first = op.body[0]
    assert isinstance(first, Reduce)
    body = _factor_body(stage, first, reduce_axes, extents, values)
    factor_op = ComputeOp(f"{op.name}.rf", op.tag, op.attrs, data, body)
    leaves = [new_axis.get(each, each) for each in stage.leaf_iter_vars if each.kind == "reduce"]
    derived = [
        each
        for each in stage.all_iter_vars
        if each.kind == "reduce" and each not in family and each not in untouched
    ]
    return Factored(
        factor_op,
        _final_op(op, first, factor_op, factor_var, place),
        [*data, *reduce_axes, *derived],
        [*data, *[each for each in leaves if each is not factor_var]],
        [each for each in stage.relations if not _touches(each, family)],
        {new_axis.get(each, each): attr for each, attr in stage.iter_attrs.items()},
    )


def _factor_body(
    stage: StageState,
    first: Reduce,
    axes: tuple[IterVar, ...],
    extents: dict[IterVar, Extent],
    values: dict[IterVar, Expr],
) -> tuple[Expr, ...]:
    """Return the values of the factored operation, guarded where a split runs past the end."""
    mapping: dict[Var, Expr] = {}
    for root in first.axes:
        if root in values:
            assert root.dom is not None
            mapping[root.var] = values[root] + root.dom.min
    condition = substitute(first.condition, mapping)
    for split in overruns(stage.relations, extents):
        limit = as_expr(extents[split.parent])
        condition = And.fold(LT.fold(values[split.parent], limit), condition)
    sources = tuple([substitute(each, mapping) for each in first.sources])
    count = range(len(sources))
    if axes:
        return tuple([Reduce(first.combiner, sources, axes, condition, i) for i in count])
    return tuple([_guard(first, condition, sources[i], i) for i in count])


def _guard(reduce: Reduce, condition: Expr, source: Expr, index: int) -> Expr:
    """Return the single value that is left to reduce, or the identity if there is none."""
    return if_then_else(condition, source, reduce.combiner.identity[index])


def _touches(relation: Relation, family: set[IterVar]) -> bool:
    names = ("parent", "outer", "inner", "fused", "iter")
    return any(getattr(relation, name, None) in family for name in names)


def _family_values(
    stage: StageState, op: ComputeOp, family: set[IterVar], factor: IterVar
) -> tuple[dict[IterVar, Extent], dict[IterVar, Expr], dict[IterVar, IterVar]]:
    """Return extents and values of all axes of a family, in terms of new axes for its leaves."""
    extents: dict[IterVar, Extent] = {}
    for root in op.reduce_axis:
        if root in family:
            known = extent_of(root)
            extents[root] = root.extent if known is None else known
    pass_down(stage.relations, extents)
    values: dict[IterVar, Expr] = {}
    new_axis: dict[IterVar, IterVar] = {}
    for leaf in stage.leaf_iter_vars:
        if leaf in family:
            kind = "data" if leaf is factor else "reduce"
            var = Var(leaf.name, "int32", kind)
            new_axis[leaf] = IterVar(var, Range(0, extents[leaf]), kind)
            once = isinstance(extents[leaf], int) and extents[leaf] == 1
            values[leaf] = const(0) if once else var
    pass_up(stage.relations, extents, values)
    return extents, values, new_axis


def _final_op(
    op: ComputeOp, first: Reduce, factor_op: ComputeOp, factor_var: IterVar, place: int
) -> ComputeOp:
    """Return the operation that reduces the factored tensors over the factored axis."""
    axis = tuple([IterVar(Var(each.name, "int32", "data"), each.dom, "data") for each in op.axis])
    over = IterVar(Var(f"{factor_var.name}.v", "int32", "reduce"), factor_var.dom, "reduce")
    indices = [each.var for each in axis]
    indices.insert(place, over.var)
    sources = tuple([ProducerLoad(tensor, tuple(indices)) for tensor in factor_op.outputs])
    mapping: dict[Var, Expr] = {old.var: new.var for old, new in zip(op.axis, axis, strict=True)}
    init = tuple([substitute(each, mapping) for each in first.init])
    always = const(True, "bool")
    body = tuple(
        [Reduce(first.combiner, sources, (over,), always, i, init) for i in range(len(op.body))]
    )
    return ComputeOp(op.name, op.tag, op.attrs, axis, body)
