"""The rewrites of computes behind cache_read and cache_write.

A stage's operation is replaced by a new one; other operations may go on reading tensors of the old
one, since a schedule finds the stage by any version of its operation. So nothing cascades.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.errors import ScheduleError
from autotune.ir import (
    Expr,
    IntImm,
    IterVar,
    ProducerLoad,
    Range,
    Reduce,
    Rewriter,
    Var,
    substitute,
)
from autotune.ir.operators import IntDivision
from autotune.te.relation import extent_of
from autotune.te.stage_state import ScheduleOwner, StageState
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


def with_body(op: ComputeOp, body: tuple[Expr, ...]) -> ComputeOp:
    """Return an operation that computes other values, in the same loops."""
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
        new_ops.append(with_body(op, body))
    for reader, new_op in zip(readers, new_ops, strict=True):
        schedule.replace_op(reader, new_op)
    return cache


def make_cache_write(
    stage: StageState,
    scope: str,
    parts: tuple[int, int] | None = None,
    primitive: str = "cache_write",
) -> tuple[ComputeOp, ComputeOp]:
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
