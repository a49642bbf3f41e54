"""Converts the layout of images, NCHW or NHWC, to the one for which there are more templates.

A value is transposed where it enters, and back only where an operator reads it that depends on the
order of its axes; all operators between compute the same in either layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator
from autotune.graph.ops.layout import DATA
from autotune.graph.passes.fold_constant import folded
from autotune.graph.passes.permuted import permuted
from autotune.graph.value import Constant, Node, Result, Value, apply

_FIRST, _LAST = DATA[2]
_RANK = len(_FIRST)
# Operations of convolutions for each byte that is transposed, from which on that is done.
_LEAST_FLOP = 4
# Bytes of a word.
_WORD = 4


def channels_first(graph: Graph, serves: Callable[[Node], bool] | None = None) -> Graph:
    """Give convolutions and pools of NHWC images in float32 the layout NCHW.

    A graph is unchanged if it has no such convolutions, or if these do little work in relation to
    the data that would be transposed.

    Args:
        graph: the network, its parameters bound.
        serves: whether a kernel computes a convolution; only these count as work. By default
            those in one group do.
    """

    def counts(node: Node) -> bool:
        return _is_whole(node) if serves is None else _is_conv(node) and serves(node)

    return _converted(graph, _LAST, _FIRST, ("float32",), counts)


def channels_last(graph: Graph, serves: Callable[[Node], bool]) -> Graph:
    """Give convolutions and pools of NCHW images in 16-bit floats or bytes the layout NHWC.

    In this layout tensor cores multiply images as they are. A graph is unchanged where
    `channels_first` would leave it so; bytes have kernels for one layout only.

    Args:
        graph: the network, its parameters bound.
        serves: whether a kernel computes a convolution; only these count as work.
    """

    def counts(node: Node) -> bool:
        return _is_whole(node) and serves(node)

    return _converted(graph, _FIRST, _LAST, ("float16", "bfloat16", "int8", "uint8"), counts)


def _converted(
    graph: Graph, old: str, new: str, dtypes: tuple[str, ...], counts: Callable[[Node], bool]
) -> Graph:
    conversion = _Conversion(old, new, dtypes)
    if not any(_is_conv(node) and conversion.turns(node) for node in graph.nodes):
        return graph
    after = graph.rewrite(conversion.of)
    before = set(graph.nodes)
    made = [node for node in after.nodes if node not in before]
    counted = [node for node in made if counts(node)]
    if any(isinstance(node.op, ops.QuantisedConv2d) for node in counted):
        return after
    flop = sum(node.flop for node in counted)
    return after if flop and flop >= _LEAST_FLOP * sum(map(_moved, made)) else graph


def _is_conv(node: Node) -> bool:
    return isinstance(node.op, ops.Conv2d | ops.QuantisedConv2d)


def _is_whole(node: Node) -> bool:
    """Return whether a node is a convolution that sums over all channels; of bytes, any is."""
    whole = isinstance(node.op, ops.Conv2d) and node.op.groups == 1
    return whole or isinstance(node.op, ops.QuantisedConv2d)


def _moved(node: Node) -> int:
    """Return the bytes that a transposition reads and writes; 0 of all else."""
    known = isinstance(node.inputs[0], Constant)
    return (
        2 * node.outputs[0].type.bytes if isinstance(node.op, ops.Transpose) and not known else 0
    )


class _Conversion:
    """One run of the pass.

    Args:
        old: the layout of the images.
        new: the layout that they get.
        dtypes: their types; images of others stay as they are.

    Attributes:
        turned: values in the new layout, by the value in the old one that they stand for.
    """

    def __init__(self, old: str, new: str, dtypes: tuple[str, ...]) -> None:
        self.old, self.new, self.dtypes = old, new, dtypes
        # Of each axis in the new layout, which it was in the old one; and back.
        self.there = tuple([old.index(letter) for letter in new])
        self.back = tuple([new.index(letter) for letter in old])
        self.turned: dict[Value, Value] = {}

    def turns(self, node: Node) -> bool:
        """Return whether a node's images have the old layout, and another kernel in the new one.

        Weights must be known, so that they are transposed ahead of time.
        """
        op = node.op
        if isinstance(op, ops.QuantisedConv2d):
            known = isinstance(node.inputs[1], Constant)
            return self.new == _LAST and op.data_layout == self.old and known
        if isinstance(op, ops.QuantisedGlobalAvgPool2d):
            return self.new == _LAST and op.layout == self.old
        if node.outputs[0].dtype not in self.dtypes:
            return False
        if isinstance(op, ops.Conv2d):
            known = isinstance(node.inputs[1], Constant)
            return op.data_layout == self.old and known and self._filters(node) is not None
        return isinstance(op, ops.Pool2d | ops.GlobalPool) and op.layout == self.old

    def _filters(self, node: Node) -> str | None:
        """Return the layout of a convolution's filters beside the new one; None without one."""
        op = node.op
        assert isinstance(op, ops.Conv2d)
        if self.new == _FIRST:
            return "OIHW"
        if op.is_depthwise(node.inputs[0].type, node.inputs[1].type):
            return "HWOI"
        # Several filters for each channel would be rows of another length.
        channels = node.inputs[0].shape[self.old.index("C")]
        return None if op.groups == channels > 1 else "HWIO"

    def of(self, node: Node, inputs: tuple[Value, ...]) -> Value | None:
        """Return what a node becomes; None if it stays."""
        if self.turns(node):
            return self._back(self._layer(node, inputs), node)
        if isinstance(node.op, ops.Transpose):
            return self._transpose(node, node.op, inputs[0])
        if not any(value in self.turned for value in inputs) or len(node.outputs) > 1:
            return None
        if isinstance(node.op, ops.Reduction) and not node.op.keepdims:
            return self._reduced(node, node.op, self.turned[inputs[0]])
        result = self._between(node, inputs)
        return None if result is None else self._back(result, node)

    def _transpose(self, node: Node, op: ops.Transpose, value: Value) -> Value | None:
        """Return the transposition of turned images, or of what has the new layout already."""
        order = op.order(value.type.ndim)
        if value in self.turned:
            return _transposed(self.turned[value], [self.back[i] for i in order], node)
        if tuple(order) == self.back and value.dtype in self.dtypes:
            return self._back(value, node)
        return None

    def _back(self, result: Value, node: Node) -> Value:
        """Return a result in the old layout again, which may turn out to be unused."""
        old = _transposed(result, self.back, node)
        self.turned[old] = result
        return old

    def _turn(self, value: Value, node: Node) -> Value:
        """Return a value in the new layout."""
        if value not in self.turned:
            self.turned[value] = _transposed(value, self.there, node)
        return self.turned[value]

    def _layer(self, node: Node, inputs: tuple[Value, ...]) -> Value:
        data, op = self._turn(inputs[0], node), node.op
        if isinstance(op, ops.QuantisedConv2d):
            turned = replace(op, data_layout=self.new)
            axes = [op.kernel_layout.index(letter) for letter in turned.kernel_layout]
            weight = _transposed(inputs[1], axes, node)
            if op.groups == 1:
                data, weight = (_in_words(each, node) for each in (data, weight))
            more = [self._turn(e, node) if e.type.ndim == _RANK else e for e in inputs[2:]]
            return apply(turned, data, weight, *more, origin=node.origin)
        if not isinstance(op, ops.Conv2d):
            assert isinstance(op, ops.Pool2d | ops.GlobalPool | ops.QuantisedGlobalAvgPool2d)
            return apply(replace(op, layout=self.new), data, origin=node.origin)
        filters = self._filters(node)
        assert filters is not None
        axes = [op.kernel_layout.index(letter) for letter in filters]
        new = replace(op, data_layout=self.new, kernel_layout=filters)
        return apply(new, data, _transposed(inputs[1], axes, node), origin=node.origin)

    def _between(self, node: Node, inputs: tuple[Value, ...]) -> Value | None:
        """Return what an operator that knows no layout makes of turned images, or None."""
        if node.output.type.ndim != _RANK:
            return None
        op = permuted(node.op, self.there, inputs[0].shape)
        operands = [self._operand(value, node) for value in inputs] if op else []
        found = [each for each in operands if each is not None]
        if op is None or len(found) < len(inputs):
            return None
        return apply(op, *found, origin=node.origin)

    def _operand(self, value: Value, node: Node) -> Value | None:
        """Return an operand of turned images, turned as they are; None if it cannot be."""
        if value in self.turned or (value.type.ndim == _RANK and not isinstance(value, Constant)):
            return self._turn(value, node)
        if value.type.ndim == 0:
            return value
        if not isinstance(value, Constant):
            return None
        missing = _RANK - value.type.ndim
        full = folded(Node(ops.ExpandDims(0, missing), (value,), node.origin), [value])
        return _transposed(full if missing else value, self.there, node)

    def _reduced(self, node: Node, op: ops.Reduction, data: Value) -> Value | None:
        """Return the reduction of turned images to what has no layout; None if axes are left."""
        over = op.over(_RANK)
        left = [axis for axis in self.there if axis not in over]
        if left != sorted(left):
            return None
        axes = tuple([self.there.index(axis) for axis in over])
        return apply(replace(op, axes=axes), data, origin=node.origin)


def _in_words(value: Value, node: Node) -> Value:
    """Return bytes with their last axis padded to words, which kernels copy: images of 3 channels.

    Weights there are 0, so that it does not matter what images have.
    """
    missing = -value.shape[-1] % _WORD
    if not missing:
        return value
    pad = Node(ops.Pad((*[(0, 0)] * (value.type.ndim - 1), (0, missing))), (value,), node.origin)
    return folded(pad, [value]) if isinstance(value, Constant) else pad.output


def _transposed(value: Value, axes: Sequence[int], node: Node) -> Value:
    """Return a value with its axes in another order; the same memory where no element moves."""
    if isinstance(value, Result) and isinstance(value.node.op, ops.Transpose):
        first = value.node.op.order(len(axes))
        return _transposed(value.node.inputs[0], [first[axis] for axis in axes], node)
    if list(axes) == sorted(axes):
        return value
    op: Operator = ops.Transpose(tuple(axes))
    wide = [axis for axis in axes if value.shape[axis] > 1]
    if wide == sorted(wide):
        op = ops.Reshape(tuple([value.shape[axis] for axis in axes]))
    made = Node(op, (value,), node.origin)
    return folded(made, [value]) if isinstance(value, Constant) else made.output
