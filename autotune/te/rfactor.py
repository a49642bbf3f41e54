"""The rewrite of computes behind rfactor: a reduction in two."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.errors import ScheduleError
from autotune.ir import (
    LT,
    And,
    Expr,
    IterVar,
    ProducerLoad,
    Range,
    Reduce,
    Var,
    as_expr,
    const,
    substitute,
)
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
from autotune.te.stage_state import IterAttr, StageState
from autotune.te.tensor import ComputeOp


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
        [each for each in stage.relations if each.axes.isdisjoint(family)],
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
