"""TVM's `relay.transform`: the passes that scripts run themselves.

`relay.build` rewrites networks as it finds best, in whatever order a script asks for it; so these
return their module as it is. Passes that change results (`ToMixedPrecision`, `FastMath`) or
layouts (`ConvertLayout`) are not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver
from autotune.tvm.relay.function import IRModule

__all__ = [
    "CanonicalizeOps",
    "DeadCodeElimination",
    "DynamicToStatic",
    "EliminateCommonSubexpr",
    "FoldConstant",
    "FoldScaleAxis",
    "FuseOps",
    "InferType",
    "RemoveUnusedFunctions",
    "SimplifyExpr",
    "SimplifyInference",
]


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


class CanonicalizeOps(_Identity):
    """Biases are sums already."""


class DeadCodeElimination(_Identity):
    """What no result needs is no part of a graph."""


class DynamicToStatic(_Identity):
    """All shapes are constant."""


class EliminateCommonSubexpr(_Identity):
    """`relay.build` computes what occurs twice once."""


class FoldConstant(_Identity):
    """`relay.build` computes what is constant."""


class FoldScaleAxis(_Identity):
    """`relay.build` scales weights instead of data."""


class FuseOps(_Identity):
    """`relay.build` fuses operators."""


class RemoveUnusedFunctions(_Identity):
    """A module has the function that is built."""


class SimplifyExpr(_Identity):
    """`relay.build` simplifies."""


class SimplifyInference(_Identity):
    """`relay.build` replaces normalisation and dropout."""


if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
