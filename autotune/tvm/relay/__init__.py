"""TVM's ``relay``: networks as expressions."""

from autotune.graph import Constant, TensorType, Value
from autotune.graph import Value as Expr
from autotune.network import load_param_dict, save_param_dict
from autotune.tvm.driver.build_config import build_config
from autotune.tvm.relay import (
    analysis,
    backend,
    build_module,
    expr,
    frontend,
    image,
    nn,
    op,
    testing,
    transform,
)
from autotune.tvm.relay.executor import create_executor
from autotune.tvm.relay.expr import bind
from autotune.tvm.relay.function import Function, IRModule, Tuple
from autotune.tvm.relay.library import build, optimize
from autotune.tvm.relay.operators import *
from autotune.tvm.relay.operators import __all__ as _operators
from autotune.tvm.relay.variable import Var

__all__ = [
    *_operators, "Constant", "Expr", "Function", "IRModule", "TensorType", "Tuple", "Value", "Var",
    "analysis", "backend", "bind", "build", "build_config", "build_module", "create_executor",
    "expr", "frontend", "image", "load_param_dict", "nn",
    "op", "optimize", "save_param_dict", "testing", "transform",
]  # fmt: skip
