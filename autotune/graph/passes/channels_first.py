"""Converts NHWC networks to NCHW, for which there are more templates.

A value is transposed where it enters, and back only where an operator reads it that depends on the
order of its axes; all operators between compute the same in either layout.
"""

from __future__ import annotations

from dataclasses import replace

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.ops.layout import DATA
from autotune.graph.passes.fold_constant import folded
from autotune.graph.value import Constant, Node, Value, apply

_FIRST, _LAST = DATA[2]
_FILTERS = "OIHW"
# Axes of images with the channels last, in the order of those with the channels first; and back.
_TO_FIRST = tuple(_LAST.index(letter) for letter in _FIRST)
_TO_LAST = tuple(_FIRST.index(letter) for letter in _LAST)
_RANK = len(_FIRST)
# Operations of convolutions for each byte that is transposed, from which on that is done.
_LEAST_FLOP = 4


def channels_first(graph: Graph) -> Graph:
    """Give convolutions and pools of NHWC images in float32 the layout NCHW.

    A graph is unchanged if it has no such convolutions, or if these do little work in relation to
    the data that would be transposed.
    """
    flop = sum(node.flop for node in graph.nodes if _is_whole(node) and _turns(node))
    if not flop:
        return graph
    after = _Turning().run(graph)
    before = set(graph.nodes)
    moves = [_moved(node) for node in after.nodes if node not in before]
    return after if flop >= _LEAST_FLOP * sum(moves) else graph


def _is_whole(node: Node) -> bool:
    """Return whether a node is a convolution that sums over all channels."""
    return isinstance(node.op, ops.Conv2d) and node.op.groups == 1


def _moved(node: Node) -> int:
    """Return the bytes that a transposition reads and writes; 0 of all else."""
    known = isinstance(node.inputs[0], Constant)
    return (
        2 * node.outputs[0].type.bytes if isinstance(node.op, ops.Transpose) and not known else 0
    )


def _turns(node: Node) -> bool:
    """Return whether a node's images have the channels last, and another kernel if they are first.

    Weights must be known, so that they are transposed ahead of time.
    """
    op = node.op
    if node.outputs[0].dtype != "float32":
        return False
    if isinstance(op, ops.Conv2d):
        return op.data_layout == _LAST and isinstance(node.inputs[1], Constant)
    return isinstance(op, ops.Pool2d | ops.GlobalPool) and op.layout == _LAST


class _Turning:
    """One run of the pass.

    Attributes:
        first: what was transposed, by the value with the channels last that it stands for.
    """

    def __init__(self) -> None:
        self.first: dict[Value, Value] = {}

    def run(self, graph: Graph) -> Graph:
        """Return the graph with its images transposed."""
        return graph.rewrite(self._new)

    def _new(self, node: Node, inputs: tuple[Value, ...]) -> Value | tuple[Value, ...] | None:
        if _turns(node):
            return self._back(self._layer(node, inputs), node)
        if any(value in self.first for value in inputs):
            result = self._between(node, inputs)
            if result is not None:
                return self._back(result, node)
        return None

    def _back(self, result: Value, node: Node) -> Value:
        """Return a result with its channels last again, which may turn out to be unused."""
        last = _transposed(result, _TO_LAST, node)
        self.first[last] = result
        return last

    def _front(self, value: Value, node: Node) -> Value:
        """Return a value with the channels first."""
        if value not in self.first:
            self.first[value] = _transposed(value, _TO_FIRST, node)
        return self.first[value]

    def _layer(self, node: Node, inputs: tuple[Value, ...]) -> Value:
        data, op = self._front(inputs[0], node), node.op
        if not isinstance(op, ops.Conv2d):
            assert isinstance(op, ops.Pool2d | ops.GlobalPool)
            return apply(replace(op, layout=_FIRST), data, origin=node.origin)
        axes = tuple([op.kernel_layout.index(letter) for letter in _FILTERS])
        new = replace(op, data_layout=_FIRST, kernel_layout=_FILTERS)
        return apply(new, data, _transposed(inputs[1], axes, node), origin=node.origin)

    def _between(self, node: Node, inputs: tuple[Value, ...]) -> Value | None:
        """Return what an operator that knows no layout makes of transposed images, or None."""
        if node.outputs[0].type.ndim != _RANK or len(node.outputs) != 1:
            return None
        if isinstance(node.op, ops.Concatenate):
            along = node.op.axis(node.op.along, _RANK)
            op, every = (
                ops.Concatenate(_TO_FIRST.index(along)),
                all(v in self.first for v in inputs),
            )
            return (
                apply(op, *[self.first[v] for v in inputs], origin=node.origin) if every else None
            )
        if not isinstance(node.op, ops.Elementwise | ops.Broadcast):
            return None
        operands = [self._operand(value, node) for value in inputs]
        if any(each is None for each in operands):
            return None
        return apply(node.op, *[each for each in operands if each is not None], origin=node.origin)

    def _operand(self, value: Value, node: Node) -> Value | None:
        """Return an operand of transposed images, transposed as they are; None if it cannot be."""
        if value in self.first:
            return self.first[value]
        if value.type.ndim == _RANK and not isinstance(value, Constant):
            return self._front(value, node)
        if value.type.ndim == 0:
            return value
        if not isinstance(value, Constant):
            return None
        missing = _RANK - value.type.ndim
        full = folded(Node(ops.ExpandDims(0, missing), (value,), node.origin), [value])
        return _transposed(full if missing else value, _TO_FIRST, node)


def _transposed(value: Value, axes: tuple[int, ...], node: Node) -> Value:
    """Return a value with its axes in another order; the same memory where no element moves."""
    op: Operator = ops.Transpose(axes)
    wide = [axis for axis in axes if value.shape[axis] > 1]
    if wide == sorted(wide):
        op = ops.Reshape(tuple([value.shape[axis] for axis in axes]))
    made = Node(op, (value,), node.origin)
    return folded(made, [value]) if isinstance(value, Constant) else made.output
