"""A graph whose weights are stored in another layout, and the steps of a state for it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from autotune.auto_scheduler.graph.compute_graph import ComputeGraph
from autotune.auto_scheduler.graph.reads import reads_of
from autotune.auto_scheduler.layouts.layout_rewrite import (
    FREE,
    Layouts,
    free_placeholders,
    layouts_of,
)
from autotune.auto_scheduler.states.loop_state import TransformStep
from autotune.auto_scheduler.states.loops import Annotation
from autotune.auto_scheduler.transform_steps import AnnotationStep, CacheReadStep, FuseStep
from autotune.ir import Expr, ProducerLoad, Rewriter, Var
from autotune.kernel.layout import TiledLayout
from autotune.target import Target
from autotune.te.declare import compute, placeholder
from autotune.te.rewrite import share_sources
from autotune.te.tensor import Attrs, ComputeOp, Operation, Tensor

# What the stage is called that lays weights out anew inside the kernel, and how many of its loops
# cores share, by the dimensions that it has at least; as in TVM.
TRANSFORM = "auto_scheduler_layout_transform"
_SHARED = ((5, 3), (3, 2), (1, 1))


class LayoutRewriteOption(IntEnum):
    """Ways to store weights whose layout is free.

    Attributes:
        NO_REWRITE: the kernel reads them as they are.
        INSERT_TRANSFORM_STAGE: the kernel copies them to the order of its loops, at each run.
        REWRITE_FOR_PRE_TRANSFORMED: the kernel takes them in the order of its loops; who calls it
            has laid them out once (`ComputeDAG.layouts_from_state`).
    """

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    REWRITE_FOR_PRE_TRANSFORMED = 2

    @staticmethod
    def get_target_default(
        target: str | Target, in_relay_integration: bool = False
    ) -> LayoutRewriteOption:
        """Return the default of a target: weights are rewritten on a CPU, and not on a GPU."""
        if "cpu" not in Target(target).keys and Target(target).device_name != "mali":
            return LayoutRewriteOption.NO_REWRITE
        if in_relay_integration:
            return LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
        return LayoutRewriteOption.INSERT_TRANSFORM_STAGE


def rewritten(
    graph: ComputeGraph, steps: Sequence[TransformStep], option: LayoutRewriteOption
) -> tuple[ComputeGraph, tuple[TransformStep, ...]]:
    """Return the graph and the steps by which a state computes with weights in its own order.

    Raises:
        ScheduleError: a length is not decided, or a step cannot be taken.
        LoweringError: a stage is attached where it cannot be computed.
    """
    layouts = {} if option is LayoutRewriteOption.NO_REWRITE else layouts_of(graph, steps)
    if not layouts:
        return graph, tuple(steps)
    inside = option is LayoutRewriteOption.INSERT_TRANSFORM_STAGE
    moved = _Moved(graph, layouts, inside)
    new = ComputeGraph(moved.tensors)
    return new, _with_transforms(new, steps) if inside else tuple(steps)


class _Moved(Rewriter):
    """The operations of a graph, those that read weights in another layout among them.

    Args:
        graph: with the weights as they are.
        layouts: of some of them.
        inside: whether the weights are copied to their layout in the kernel.

    Attributes:
        to: tensor -> what is read in its place.
        tensors: of the new graph, as arguments of a kernel.
    """

    def __init__(self, graph: ComputeGraph, layouts: Layouts, inside: bool) -> None:
        self.layouts = layouts
        self.to: dict[Tensor, Tensor] = {}
        for op in graph.ops:
            layout = layouts.get(op)
            if layout is not None:
                tensor = op.outputs[0]
                self.to[tensor] = _copied(tensor, layout) if inside else _taken(tensor, layout)
            elif isinstance(op, ComputeOp):
                new = self._moved(op)
                self.to |= dict(zip(op.outputs, new.outputs, strict=True)) if new is not op else {}
        kept = {op.outputs[0] for op in layouts} if inside else set()
        self.tensors = [
            tensor if tensor in kept else self.to.get(tensor, tensor) for tensor in graph.tensors
        ]

    def _moved(self, op: ComputeOp) -> ComputeOp:
        body = self.rewrite_all(op.body)
        if body is op.body:
            return op
        attrs = dict(op.attrs)
        free = [each for each in free_placeholders(op) if each in self.layouts]
        if free:
            attrs |= self._said(op, free)
        return ComputeOp(op.name, op.tag, attrs, op.axis, share_sources(body))

    def _said(self, op: ComputeOp, free: Sequence[Operation]) -> Attrs:
        """Return TVM's attributes of an operation whose weights were laid out anew."""
        first = free[0]
        (indices, *_) = reads_of(op)[first]
        names = [each.name if isinstance(each, Var) else "" for each in indices]
        layout = self.layouts[first]
        natural = zip(layout.shape, names, strict=True)
        return {
            FREE: [each for each in op.attrs[FREE] if getattr(each, "op", each) not in free],
            "ori_placeholder_layout": "".join(f"{n}{name}" for n, name in natural if name),
            "new_placeholder_layout": layout.text(names),
        }

    def visit_ProducerLoad(self, node: ProducerLoad) -> Expr:
        """Read what replaces a tensor, in the layout of its elements."""
        indices = self.rewrite_all(node.indices)
        new = self.to.get(node.tensor)
        if new is None:
            return node if indices is node.indices else ProducerLoad(node.tensor, indices)
        layout = self.layouts.get(node.tensor.op)
        return ProducerLoad(new, indices if layout is None else layout.places(indices))


def _taken(tensor: Tensor, layout: TiledLayout) -> Tensor:
    """Return the argument that takes weights in their layout."""
    return placeholder(layout.tiled_shape, tensor.dtype, tensor.name)


def _copied(tensor: Tensor, layout: TiledLayout) -> Tensor:
    """Return the weights copied to their layout."""
    copy: Tensor = compute(
        layout.tiled_shape, lambda *places: tensor(*layout.indices(places)), TRANSFORM
    )
    return copy


def _with_transforms(
    graph: ComputeGraph, steps: Sequence[TransformStep]
) -> tuple[TransformStep, ...]:
    """Return steps with the numbers that stages have where copies of weights are stages too.

    Cores share the outer loops of each copy.
    """
    found = list(steps)
    copies = [i for i, op in enumerate(graph.ops) if op.name == TRANSFORM]
    last: list[TransformStep] = []
    for first in copies:
        at = first
        for place, step in enumerate(found):
            found[place] = step.making_room(at)
            if step.adds_stage:
                at += found[place].stage_id + isinstance(step, CacheReadStep) <= at
        dims = len(graph.ops[first].axis)
        count = next(loops for least, loops in _SHARED if dims >= least)
        last += [FuseStep(at, tuple(range(count)))] if count > 1 else []
        last.append(AnnotationStep(at, 0, Annotation.PARALLEL))
    return (*found, *last)
