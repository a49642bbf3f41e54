"""TVM's `ir`: what its expressions and networks have in common."""

from autotune.graph import TensorType
from autotune.ir import Expr as PrimExpr
from autotune.tvm.ir import transform
from autotune.tvm.ir.ranges import Range
from autotune.tvm.relay.function import IRModule
from autotune.tvm.relay.json_form import load_json, save_json

__all__ = ["IRModule", "PrimExpr", "Range", "TensorType", "load_json", "save_json", "transform"]
