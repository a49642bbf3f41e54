"""TVM's `ir`: what its expressions and networks have in common."""

from autotune.graph import TensorType
from autotune.ir import Expr as PrimExpr
from autotune.ir import Range
from autotune.tvm.ir import transform
from autotune.tvm.relay.function import IRModule

__all__ = ["IRModule", "PrimExpr", "Range", "TensorType", "transform"]
