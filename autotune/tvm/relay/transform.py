"""TVM's `relay.transform`: the passes that scripts run themselves.

`relay.build` rewrites networks as it finds best, in whatever order a script asks for it; so these
return their module as it is. `ToMixedPrecision` alone changes results, and does what it says.
"""

from __future__ import annotations

from autotune.errors import GraphError
from autotune.graph.passes import MIXED, mixed_precision
from autotune.lowering.pass_context import PassContext
from autotune.tvm.relay.function import IRModule, graph_of
from autotune.utils.check import Check

__all__ = [
    "AlterOpLayout",
    "BackwardFoldScaleAxis",
    "CanonicalizeCast",
    "CanonicalizeOps",
    "CombineParallelBatchMatmul",
    "CombineParallelConv2D",
    "CombineParallelDense",
    "ConvertLayout",
    "DeadCodeElimination",
    "DivToMul",
    "DynamicToStatic",
    "EliminateCommonSubexpr",
    "FakeQuantizationToInteger",
    "FastMath",
    "FlattenAtrousConv",
    "FoldConstant",
    "FoldExplicitPadding",
    "FoldScaleAxis",
    "ForwardFoldScaleAxis",
    "FuseOps",
    "InferType",
    "Inline",
    "Legalize",
    "RemoveUnusedFunctions",
    "SimplifyExpr",
    "SimplifyFCTranspose",
    "SimplifyInference",
    "ToANormalForm",
    "ToBasicBlockNormalForm",
    "ToGraphNormalForm",
    "ToMixedPrecision",
]

_KEEP = "relay.ToMixedPrecision.keep_orig_output_dtype"


class _Identity:
    """A pass that leaves its module, since `relay.build` does what it does.

    Args:
        options: accepted for TVM's scripts.
    """

    def __init__(self, *options: object, **more: object) -> None:
        del options, more

    def __call__(self, mod: object) -> IRModule:
        """Return the module of a function or an expression, a module itself."""
        return IRModule.from_expr(mod)


class InferType(_Identity):
    """Types are known as soon as an expression is made."""


class AlterOpLayout(_Identity):
    """`relay.build` chooses layouts."""


class CanonicalizeCast(_Identity):
    """`relay.build` folds casts of constants, and fuses others."""


class CombineParallelBatchMatmul(_Identity):
    """`relay.build` merges products of one operand where that is faster."""


class CombineParallelConv2D(_Identity):
    """Convolutions of one image are kernels of their own."""


class CombineParallelDense(_Identity):
    """`relay.build` merges products of one operand where that is faster."""


class ConvertLayout(_Identity):
    """`relay.build` chooses layouts; the inputs and outputs of a network keep theirs anyhow."""


class CanonicalizeOps(_Identity):
    """Biases are sums already."""


class DeadCodeElimination(_Identity):
    """What no result needs is no part of a graph."""


class DynamicToStatic(_Identity):
    """All shapes are constant."""


class EliminateCommonSubexpr(_Identity):
    """`relay.build` computes what occurs twice once."""


class FastMath(_Identity):
    """Functions are exact to some units in the last place; none is approximated further."""


class FoldConstant(_Identity):
    """`relay.build` computes what is constant."""


class FoldScaleAxis(_Identity):
    """`relay.build` scales weights instead of data."""


class FuseOps(_Identity):
    """`relay.build` fuses operators."""


class Legalize(_Identity):
    """Operators are made for all types that they accept."""


class RemoveUnusedFunctions(_Identity):
    """A module has the function that is built."""


class SimplifyExpr(_Identity):
    """`relay.build` simplifies."""


class SimplifyInference(_Identity):
    """`relay.build` replaces normalisation and dropout."""


class ToBasicBlockNormalForm(_Identity):
    """Graphs have no nested scopes."""


class BackwardFoldScaleAxis(_Identity):
    """`relay.build` scales weights instead of data."""


class DivToMul(_Identity):
    """Divisions stay what they are."""


class FakeQuantizationToInteger(_Identity):
    """`relay.build` computes quantised layers on integers where it can."""


class FlattenAtrousConv(_Identity):
    """Convolutions have dilations."""


class FoldExplicitPadding(_Identity):
    """`relay.build` pads within the kernels of layers."""


class ForwardFoldScaleAxis(_Identity):
    """`relay.build` scales weights instead of data."""


class Inline(_Identity):
    """A module has one function."""


class SimplifyFCTranspose(_Identity):
    """`relay.build` transposes constant weights when it compiles."""


class ToANormalForm(_Identity):
    """Graphs are printed one operator a line."""


class ToGraphNormalForm(_Identity):
    """Networks are graphs."""


class ToMixedPrecision:
    """Let convolutions and products, and what follows them, compute with 16-bit floats.

    The types of inputs and parameters stay; those of outputs only with the option
    ``relay.ToMixedPrecision.keep_orig_output_dtype`` of the pass context.

    Args:
        mixed_precision_type: ``"float16"`` or ``"bfloat16"``.
        missing_op_mode: 0 to 2, accepted for TVM's scripts: operators that are not known to be
            accurate stay in float32.

    Example::

        module = relay.transform.ToMixedPrecision("float16")(module)
        library = relay.build(module, "cuda", params=params)
    """

    def __init__(self, mixed_precision_type: str = "float16", missing_op_mode: int = 1) -> None:
        check = Check(GraphError, "ToMixedPrecision")
        check.one_of("mixed_precision_type", mixed_precision_type, MIXED)
        check.whole("missing_op_mode", missing_op_mode, 0, 2)
        self._dtype = mixed_precision_type

    def __call__(self, mod: object) -> IRModule:
        """Return the module in mixed precision.

        Raises:
            GraphError: it is no module, function or expression.
        """
        keep = bool(PassContext.current().config.get(_KEEP, False))
        return IRModule.from_expr(mixed_precision(self._dtype, keep)(graph_of(mod)))
