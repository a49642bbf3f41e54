"""Lists of passes by name: TVM's for both targets, and our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.graph.graph import Graph
from autotune.graph.passes.alter_layout import alter_layout, alter_layout_cpu
from autotune.graph.passes.canonical import canonicalize_ops, simplify_expressions
from autotune.graph.passes.common_subexpressions import eliminate_common
from autotune.graph.passes.epilogue import fold_affine
from autotune.graph.passes.fold_constant import fold_constant
from autotune.graph.passes.fold_scale import fold_scale_backward, fold_scale_forward
from autotune.graph.passes.image_layout import channels_first
from autotune.graph.passes.reshapes_last import reshapes_last
from autotune.graph.passes.simplify_inference import simplify_inference
from autotune.graph.passes.to_conv2d import to_conv2d
from autotune.graph.passes.to_dense import to_dense

Pass = Callable[[Graph], Graph]


@dataclass(frozen=True)
class PassPipeline:
    """Passes in order, each with the level from which on it runs.

    Attributes:
        composes: whether networks go on with `compose`, which asks what there is for a target.

    Example::

        simpler = RELAY_CUDA(graph.bind(params))
    """

    name: str
    passes: tuple[tuple[int, Pass], ...]
    composes: bool = False

    def __call__(self, graph: Graph, opt_level: int = 3) -> Graph:
        """Run the passes of at most this level."""
        for level, each in self.passes:
            if level <= opt_level:
                graph = each(graph)
        return graph


_COMMON: tuple[tuple[int, Pass], ...] = (
    (0, simplify_inference),
    (3, eliminate_common),
    (2, fold_constant),
    (3, fold_scale_backward),
    (3, fold_scale_forward),
    (2, fold_constant),
    (0, simplify_expressions),
    (3, canonicalize_ops),
)
_END: tuple[tuple[int, Pass], ...] = ((0, simplify_expressions), (2, fold_constant))

# The order of ``relay.build`` with the auto-scheduler, from which TVM's workload keys follow.
RELAY_CUDA = PassPipeline("relay_cuda", (*_COMMON, (3, alter_layout), *_END))
# On the CPU TVM takes Winograd's for fewer convolutions; weights are laid out anew once a schedule
# is known.
RELAY_CPU = PassPipeline("relay_llvm", (*_COMMON, (3, alter_layout_cpu), *_END))
# While templates are extracted TVM leaves layouts alone.
RELAY_TEMPLATES = PassPipeline("relay_templates", (*_COMMON, *_END))
# Reshapes would be between products and the scales and shifts that are folded into them.
_OWN_COMMON = ((3, reshapes_last), *_COMMON)
_OWN = (*_OWN_COMMON, (3, to_conv2d), (3, to_dense), (3, fold_affine))
# Ours: fewer operations, whatever the signs of scales; direct convolutions of images, channels
# first.
OWN = PassPipeline("own", (*_OWN, (3, channels_first), *_END), composes=True)
# The same with volumes and transposed convolutions as they are, which records of TVM's templates
# fit.
OWN_LAYERS = PassPipeline(
    "own_layers", (*_OWN_COMMON, (3, fold_affine), (3, channels_first), *_END), True
)
# The same with images of 32-bit floats as they are, where a race says that it is faster.
OWN_AS_WRITTEN = PassPipeline("own_as_written", (*_OWN, *_END), composes=True)
