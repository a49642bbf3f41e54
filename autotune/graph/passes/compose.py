"""Arithmetic that is a norm or attention becomes that operator, where something computes it whole.

Importers and `simplify_inference` write norms and attention as sums, products and a softmax, of
which each would be a kernel. What is found are the ways in which PyTorch, ONNX and TVM write them.
"""

from __future__ import annotations

from autotune.graph.graph import Graph
from autotune.graph.passes.compose_attention import attention
from autotune.graph.passes.compose_norm import affine, grouped, narrowed, norm
from autotune.graph.passes.composing import Serves, rewritten


def compose(graph: Graph, serves: Serves) -> Graph:
    """Make norms and attention of the arithmetic that means the same, where that is worth it.

    Args:
        graph: after all other passes.
        serves: whether an operator, applied to inputs, is worth making.
    """
    return rewritten(graph, serves, (norm, affine, grouped, narrowed, attention))
