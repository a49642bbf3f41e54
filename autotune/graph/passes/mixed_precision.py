"""Mixed precision: layers compute with 16-bit floats, what would lose by it stays as it is.

As in TVM's pass of the name, operators are of three kinds.

- *Layers* always convert their inputs. They have most of the operations, tensor cores multiply
  16-bit floats, and their sums are in float32.
- *Followers* take what they are given: rearrangements of elements, and arithmetic whose results
  are about as large as its operands. They are in 16 bits behind a layer, and stay in float32
  behind what is not converted.
- *All others* never compute in 16 bits: exponentials and what is made of them, roots, sums of
  any number of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from autotune.graph import ops
from autotune.graph.graph import Graph
from autotune.graph.operator import Operator, Pattern
from autotune.graph.passes.simplify_inference import without_batch_norms
from autotune.graph.types import Array, TensorType
from autotune.graph.value import Constant, Node, Value, apply
from autotune.ir.dtype import FLOAT_LIMIT

Kind = Literal["layer", "follower", "never"]
MIXED = ("float16", "bfloat16")

_LAYERS = frozenset(
    (
        "nn.conv2d", "nn.conv2d_transpose", "nn.conv3d", "nn.dense", "nn.batch_matmul",
        "nn.packed_attention", "nn.rows_first_attention", "nn.scaled_dot_product_attention",
    )
)  # fmt: skip
# Besides those that move elements. Norms have their statistics in float32.
_FOLLOWERS = frozenset(
    (
        "abs", "add", "broadcast_to", "ceil", "clip", "copy", "divide", "equal", "expand_dims",
        "floor", "full", "greater", "greater_equal", "less", "less_equal", "max", "maximum",
        "mean", "min", "minimum", "multiply", "negative", "not_equal", "sigmoid", "subtract",
        "tanh", "where", "nn.avg_pool2d", "nn.bias_add", "nn.dropout", "nn.gelu",
        "nn.global_avg_pool2d", "nn.global_avg_pool3d", "nn.global_max_pool2d", "nn.group_norm",
        "nn.instance_norm", "nn.layer_norm", "nn.leaky_relu", "nn.max_pool2d", "nn.prelu",
        "nn.relu", "nn.rms_norm", "nn.silu",
    )
)  # fmt: skip


def kind_of(op: Operator) -> Kind:
    """Return how an operator takes part."""
    if op.name in _LAYERS:
        return "layer"
    moves = op.pattern is Pattern.INJECTIVE
    return "follower" if moves or op.name in _FOLLOWERS else "never"


def mixed_precision(
    dtype: str = "float16", keep_outputs: bool = False
) -> Callable[[Graph], Graph]:
    """Return the pass that lets layers compute with a type of 16 bits.

    Inputs and weights keep their types, and are converted where they are read; those of weights
    are folded when a network is built.

    Args:
        dtype: ``"float16"`` or ``"bfloat16"``.
        keep_outputs: whether outputs are converted back to the types that they had.
    """

    def convert(graph: Graph) -> Graph:
        graph = without_batch_norms(graph)
        mixed = graph.rewrite(_Rule(dtype))
        if not keep_outputs:
            return mixed
        types = [value.dtype for value in graph.outputs]
        pairs = zip(mixed.outputs, types, strict=True)
        return Graph(mixed.inputs, tuple(_cast(value, kind) for value, kind in pairs))

    return convert


class _Rule:
    """Rewrites one node after the other, and remembers what was converted."""

    def __init__(self, dtype: str) -> None:
        self._dtype = dtype
        self._casts: dict[tuple[Value, str], Value] = {}
        # Results of what must not compute in 16 bits, behind a layer. What is before any layer,
        # such as the scales that batch norms become, is converted where it meets one.
        self._wide: set[Value] = set()

    def __call__(self, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if isinstance(node.op, ops.Cast):
            return None  # somebody decided
        kind = kind_of(node.op)
        narrow = kind == "layer" or (kind == "follower" and self._is_narrow(inputs))
        given = tuple([self._given(value, narrow) for value in inputs])
        outputs = node.on(given).outputs
        behind = any(value.dtype == self._dtype or value in self._wide for value in inputs)
        if behind and not narrow:
            self._wide.update(outputs)
        return outputs

    def _is_narrow(self, inputs: tuple[Value, ...]) -> bool:
        """Whether a follower has an input in 16 bits, and none that must not be converted."""
        return any(value.dtype == self._dtype for value in inputs) and not any(
            value in self._wide for value in inputs
        )

    def _given(self, value: Value, narrow: bool) -> Value:
        if value.dtype == ("float32" if narrow else self._dtype):
            return self._as(value, self._dtype if narrow else "float32")
        return value

    def _as(self, value: Value, dtype: str) -> Value:
        if (value, dtype) not in self._casts:
            self._casts[value, dtype] = _cast(value, dtype)
        return self._casts[value, dtype]


def _cast(value: Value, dtype: str) -> Value:
    if value.dtype == dtype:
        return value
    if isinstance(value, Constant):
        return _constant(value, dtype)
    return apply(ops.Cast(dtype), value, origin="mixed precision")


def _constant(value: Constant, dtype: str) -> Constant:
    """Convert a constant; what a type cannot hold, as a mask of -1e9, is its largest number."""
    largest = FLOAT_LIMIT[dtype]

    def make() -> Array:
        numbers = value.array
        return np.where(np.isinf(numbers), numbers, np.clip(numbers, -largest, largest))

    return Constant(TensorType(value.shape, dtype), make, value.name)
