"""Pattern matching: arithmetic that is a norm, attention or an activation becomes that operator.

Importers and `simplify_inference` write norms and attention as sums, products and a softmax, each
of which would be a kernel. As one operator they are computed by one kernel, and GELU and SiLU by
the kernel of the product before them. The patterns are those in which PyTorch, ONNX and TVM write
them.
"""

from __future__ import annotations

from autotune.graph.graph import Graph
from autotune.graph.passes.compose_activation import activation
from autotune.graph.passes.compose_attention import attention
from autotune.graph.passes.compose_heads import untransposed
from autotune.graph.passes.compose_norm import affine, grouped, narrowed, norm
from autotune.graph.passes.compose_patches import patches
from autotune.graph.passes.composing import Serves, rewritten

_MATCHERS = (norm, affine, grouped, narrowed, attention, untransposed, activation, patches)


def compose(graph: Graph, serves: Serves) -> Graph:
    """Replace arithmetic that computes norms, attention, GELU or SiLU by these operators.

    Args:
        graph: the graph after all other passes.
        serves: returns whether an operator, applied to inputs, should be created.
    """
    return rewritten(graph, serves, _MATCHERS)
