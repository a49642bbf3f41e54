"""The operations of a schedule, each reading the others as they are now.

Rewrites of a schedule (cache_read, cache_write, rfactor) leave operations that read an earlier
version of another one. A schedule knows which is which; an analysis should not have to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.ir import Expr, IterVar, ProducerLoad, Rewriter, Var, substitute
from autotune.te.rewrite import share_sources
from autotune.te.schedule import Schedule
from autotune.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor

# An operation, its name, those of its axes, and what it reads now; and what it is then.
Links = dict[tuple[object, ...], Operation]


class _Relinked(ComputeOp):
    """An operation that reads other tensors instead of some; its body is made when asked for.

    A step that adds a stage changes what all stages behind it read, and few of these are looked
    into before the next one does.

    Args:
        name: of the operation.
        like: what is computed but for what is read.
        tensors: what ``like`` reads, and what is read instead.
        axis: loops with other names.
    """

    __slots__ = ("_body", "_like", "_tensors")

    def __init__(
        self,
        name: str,
        like: ComputeOp,
        tensors: Mapping[Tensor, Tensor],
        axis: tuple[IterVar, ...],
    ) -> None:
        self.name, self.tag, self.attrs = name, like.tag, like.attrs
        self.axis, self.reduce_axis = axis, like.reduce_axis
        several = len(like.outputs) > 1
        self.outputs = tuple(
            [
                Tensor(self, i, each.shape, each.dtype, f"{name}.v{i}" if several else name)
                for i, each in enumerate(like.outputs)
            ]
        )
        self._inputs = tuple(dict.fromkeys(tensors.values()))
        self._like, self._tensors = like, tensors
        self._body: tuple[Expr, ...] | None = None

    @property
    def body(self) -> tuple[Expr, ...]:  # type: ignore[override]
        """Each output's value at ``axis``."""
        if self._body is None:
            old = self._like
            body = _ReplaceTensors(self._tensors).rewrite_all(old.body)
            if self.axis is not old.axis:
                pairs = zip(old.axis, self.axis, strict=True)
                renamed: dict[Var, Expr] = {each.var: new.var for each, new in pairs}
                body = tuple([substitute(each, renamed) for each in body])
            self._body = body if body is old.body else share_sources(body)
        return self._body


class _ReplaceTensors(Rewriter):
    """Makes reads of some tensors reads of others."""

    def __init__(self, tensors: Mapping[Tensor, Tensor]) -> None:
        self.tensors = tensors

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        indices = self.rewrite_all(node.indices)
        tensor = self.tensors[node.tensor]
        if tensor is node.tensor and indices is node.indices:
            return node
        return ProducerLoad(tensor, indices)


def linked_ops(
    schedule: Schedule,
    names: Sequence[str] | None = None,
    axes: Mapping[Operation, Sequence[str]] | None = None,
    links: Links | None = None,
) -> tuple[Operation, ...]:
    """Return the operations of a schedule in the order of its stages.

    What a stage reads is the very operation that stands earlier in the result. Operations whose
    reads are current already are returned as they are.

    Args:
        schedule: whose operations they are.
        names: what to call them, one for each stage, if not by their own names.
        axes: of some of the operations, what to call their axes.
        links: what was made for other schedules of the same operations, which is added to.
    """
    wanted = names or [stage.op.name for stage in schedule.stages]
    renamed, known = axes or {}, {} if links is None else links
    latest: dict[Operation, Operation] = {}
    for stage, name in zip(schedule.stages, wanted, strict=True):
        op, own = stage.op, renamed.get(stage.op)
        read = [latest[schedule.stage_map[each.op].op] for each in op.input_tensors]
        key = (op, name, None if own is None else tuple(own), *read)
        if key not in known:
            known[key] = _linked(op, name, own, read)
        latest[op] = known[key]
    return tuple(latest.values())


def _linked(
    op: Operation, name: str, axes: Sequence[str] | None, read: Sequence[Operation]
) -> Operation:
    """Return an operation under a name, reading the newest of what it reads."""
    if not isinstance(op, ComputeOp):
        tensor = op.outputs[0]
        return op if name == op.name else PlaceholderOp(name, tensor.shape, tensor.dtype)
    tensors = {
        old: new.outputs[old.value_index] for old, new in zip(op.input_tensors, read, strict=True)
    }
    if name == op.name and axes is None and all(old is new for old, new in tensors.items()):
        return op
    return _Relinked(name, op, tensors, op.axis if axes is None else _renamed(op.axis, axes))


def _renamed(axes: Sequence[IterVar], names: Sequence[str]) -> tuple[IterVar, ...]:
    return tuple(
        [
            IterVar(Var(new, old.dtype, old.kind), old.dom, old.kind)
            for old, new in zip(axes, names, strict=True)
        ]
    )
