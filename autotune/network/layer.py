"""A function as templates see it: an operator, its operands, and its epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.graph import Constant, Node, Operator, Pattern, TensorType, Value, ops
from autotune.graph.fuse import FusedFunction
from autotune.graph.passes import channels, vector_axis
from autotune.network.expressions import function_of_one
from autotune.target import Target

# Activations that have a name; all others are expressions.
NAMED = ("none", "relu", "relu6", "silu", "gelu", "gelu_tanh")


@dataclass(frozen=True)
class Epilogue:
    """The epilogue of a sum: ``(sum + bias + residual) * scale + shift``, then an activation.

    Without ``kept``, a shift occurs only together with a scale.

    Attributes:
        bias, scale, shift: one number per channel, or None.
        residual: a tensor of the result's shape, or None.
        activation: ``"none"``, ``"relu"``, ``"relu6"`` (which limits to 0 .. 6), ``"silu"``,
            ``"gelu"`` or its approximation ``"gelu_tanh"``; any other function of one number as an
            expression of ``a``, such as ``"(a * sigmoid(a))"``.
        kept: whether the sum before scale, shift and activation is a result too, the first of two.
    """

    bias: Value | None = None
    residual: Value | None = None
    scale: Value | None = None
    shift: Value | None = None
    activation: str = "none"
    kept: bool = False

    @property
    def relu(self) -> bool:
        """Whether negative numbers become 0, and nothing else is done to them."""
        return self.activation == "relu"

    @property
    def kind_of_activation(self) -> str:
        """The activation's name, or ``"expression"``."""
        return self.activation if self.activation in NAMED else "expression"

    @property
    def shifts(self) -> bool:
        """Whether a shift follows what is kept without a scale."""
        return self.kept and self.scale is None and self.shift is not None

    def followed_by(self, node: Node, value: Value, channel: int | None) -> Epilogue | None:
        """Return the epilogue extended by a node, or None if an epilogue cannot express it.

        Args:
            node: a node that reads ``value``.
            value: the result so far.
            channel: the axis of its channels, or None.
        """
        if self.activation != "none" or value not in node.inputs:
            return None
        activation = _activation_of(node.op)
        if activation is not None:
            return replace(self, activation=activation)
        if not isinstance(node.op, ops.Add | ops.Multiply) or node.inputs.count(value) != 1:
            return None
        (other,) = [each for each in node.inputs if each is not value]
        along = vector_axis(other, value)
        if isinstance(node.op, ops.Add) and other.type == value.type and along is None:
            free = not self.kept and self._free("residual", "scale")
            return replace(self, residual=other) if free else None
        if channel is None or along != channel:
            return None
        if isinstance(node.op, ops.Multiply):
            # (x + shift) * scale is not x * scale + shift.
            return replace(self, scale=other) if self._free("scale", "shift") else None
        if self.kept or self.scale is not None:
            return replace(self, shift=other) if self._free("shift") else None
        return replace(self, bias=other) if self._free("bias") else None

    def keeping(self) -> Epilogue | None:
        """Return the epilogue with the sum so far as a result; None if more was applied to it."""
        plain = not self.kept and self.activation == "none" and self._free("scale", "shift")
        return replace(self, kept=True) if plain else None

    def _free(self, *names: str) -> bool:
        return all(getattr(self, name) is None for name in names)


@dataclass(frozen=True)
class Layer:
    """An operator of a network and its epilogue, as one template may compute it.

    Attributes:
        op: the operator, with its attributes.
        inputs: its operands, which are inputs of the function, in the operator's order.
        result: the type of the result.
        epilogue: what is computed after the operator.
        target: the target.
        constants: the inputs whose values are known, so that they can be transformed ahead of
            time.
    """

    op: Operator
    inputs: tuple[Value, ...]
    result: TensorType
    epilogue: Epilogue
    target: Target
    constants: frozenset[Value]

    @property
    def dtypes(self) -> set[str]:
        """Types of the elements of all operands, and of the result."""
        return {self.result.dtype, *(each.dtype for each in self.inputs)}

    @property
    def layout(self) -> str | None:
        """The layout of the data, such as ``"NCHW"``; None of operators that have none."""
        for name in ("data_layout", "layout"):
            layout = getattr(self.op, name, None)
            if isinstance(layout, str):
                return layout
        return None


def _activation_of(op: Operator) -> str | None:
    """Returns the name of an activation; None of any other operator."""
    match op:
        case ops.Relu():
            return "relu"
        case ops.Clip(a_min=0.0, a_max=6.0):
            return "relu6"
        case ops.Silu():
            return "silu"
        case ops.Gelu(approximate="none"):
            return "gelu"
        case ops.Gelu(approximate="tanh"):
            return "gelu_tanh"
        case _:
            return None


def _channel_axis(node: Node) -> int | None:
    """Return the axis of a result along which a bias varies; None if there is none."""
    if isinstance(node.op, ops.Convolution):  # grouped ones too, whose scales no pass moves
        return node.op.data_layout.index("C")
    found = channels(node)
    return found[1] if found else None


def layers_of(function: FusedFunction, target: Target) -> list[tuple[int, Layer]]:
    """Return all layers with which a function begins, and the number of nodes of each.

    The longest is first. A function that does not begin with its operator has none; an operator
    that only moves elements is a layer without an epilogue.
    """
    nodes = function.graph.nodes
    if not nodes or len(nodes[0].outputs) != 1:
        return []
    if nodes[0].op.pattern <= Pattern.INJECTIVE and len(nodes) > 1:
        return []
    anchor, given = nodes[0], set(function.graph.inputs)
    if not given.issuperset(anchor.inputs):
        return []
    channel = _channel_axis(anchor)
    pairs = zip(function.graph.inputs, function.inputs, strict=True)
    known = frozenset(own for own, value in pairs if isinstance(value, Constant))
    value, epilogue = anchor.output, Epilogue()
    found = [(1, Layer(anchor.op, anchor.inputs, value.type, epilogue, target, known))]
    whole: list[tuple[int, Layer]] = []
    for count, node in enumerate(nodes[1:], start=2):
        activated = _activated(function, nodes[count - 1 :], value, epilogue)
        if activated is not None and not whole:
            layer = replace(found[-1][1], epilogue=activated)
            whole = [(len(nodes), layer)]
        others = [each for each in node.inputs if each is not value]
        if not given.issuperset(others) or len(node.outputs) != 1:
            break
        kept = epilogue.keeping() if value in function.graph.outputs else epilogue
        following = kept.followed_by(node, value, channel) if kept is not None else None
        if following is None:
            break
        value, epilogue = node.output, following
        found.append((count, Layer(anchor.op, anchor.inputs, value.type, epilogue, target, known)))
    return whole + found[::-1]


def _activated(
    function: FusedFunction, nodes: Sequence[Node], value: Value, epilogue: Epilogue
) -> Epilogue | None:
    """Return the epilogue followed by all nodes that are left, as an activation; None if not one.

    One that has a name is left to `Epilogue.followed_by`, and what is kept is no activation's.
    """
    outputs = function.graph.outputs
    several = len(outputs) > 1 or outputs[0].type != value.type
    if several or epilogue.kept or epilogue.activation != "none":
        return None
    if len(nodes) == 1 and _activation_of(nodes[0].op):
        return None
    text = function_of_one(nodes, value)
    return replace(epilogue, activation=text) if text else None
