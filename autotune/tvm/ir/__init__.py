"""TVM's `ir`: what its expressions and networks have in common."""

from autotune.graph import TensorType
from autotune.ir import Expr as PrimExpr
from autotune.tvm.ir import transform
from autotune.tvm.ir.ranges import Range
from autotune.tvm.ir.structural import assert_structural_equal, structural_equal
from autotune.tvm.relay.function import IRModule
from autotune.tvm.relay.json_form import load_json, save_json
from autotune.tvm.tir.intrin_rules import register_intrin_lowering, register_op_attr

# What TVM's own types of lists and dicts are here.
Array, Map = tuple, dict

__all__ = [
    "Array",
    "IRModule",
    "Map",
    "PrimExpr",
    "Range",
    "TensorType",
    "assert_structural_equal",
    "load_json",
    "register_intrin_lowering",
    "register_op_attr",
    "save_json",
    "structural_equal",
    "transform",
]
