"""TVM's `ir`: what its expressions and networks have in common."""

from typing import TYPE_CHECKING

from autotune.graph import TensorType
from autotune.ir import Expr as PrimExpr
from autotune.ir import Range
from autotune.tvm.ir import transform
from autotune.tvm.names import resolver
from autotune.tvm.relay.function import IRModule

__all__ = ["IRModule", "PrimExpr", "Range", "TensorType", "transform"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
