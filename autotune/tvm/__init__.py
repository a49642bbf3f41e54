"""TVM's names and layout over autotune, for scripts that were written for TVM.

On the import lines of such a script ``tvm`` becomes ``autotune.tvm`` (``import tvm`` becomes
``from autotune import tvm``), and nothing else changes; ``python -m autotune.tvm script.py`` runs
one that was not changed at all. Names and adapters only: what they name has its home in autotune,
and nothing in autotune imports this package. What TVM has and autotune does not says what to use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autotune.tvm.names import GONE, OTHERS, explain_modules, resolver
from autotune.utils.names import explain_imports, load
from autotune.version import __version__

if TYPE_CHECKING:
    from autotune.errors import AutotuneError as TVMError
    from autotune.runtime import convert, cpu, cuda, device, gpu
    from autotune.runtime import device as context
    from autotune.tvm import (
        auto_scheduler,
        autotvm,
        contrib,
        driver,
        error,
        nd,
        relay,
        rpc,
        runtime,
        target,
        te,
        testing,
        tir,
        topi,
        transform,
    )
    from autotune.tvm.driver.building import build
    from autotune.tvm.register import get_global_func, register_func
    from autotune.tvm.relay.function import IRModule

# Public name -> its home; loaded when first used.
_HOMES = {
    **{
        name: f"autotune.tvm.{name}"
        for name in (
            "_ffi", "arith", "auto_scheduler", "autotvm", "contrib", "driver", "error",
            "ir", "ir_pass", "nd", "relay", "rpc", "runtime", "target", "te", "testing", "tir",
            "topi", "transform",
        )
    },
    "DataType": "autotune.tvm.runtime.data_type:DataType",
    "IRModule": "autotune.tvm.relay.function:IRModule",
    "TVMError": "autotune.errors:AutotuneError",
    "build": "autotune.tvm.driver.building:build",
    "build_config": "autotune.tvm.driver.build_config:build_config",
    "build_module": "autotune.tvm.driver.build_module",
    "context": "autotune.runtime:device",
    "convert": "autotune.runtime:convert",
    "cpu": "autotune.runtime:cpu",
    "cuda": "autotune.runtime:cuda",
    "device": "autotune.runtime:device",
    "get_global_func": "autotune.tvm.register:get_global_func",
    "gpu": "autotune.runtime:gpu",
    "lower": "autotune.tvm.driver.lowering:lower",
    "register_func": "autotune.tvm.register:register_func",
    "register_intrin_rule": "autotune.tvm.tir.intrin_rules:register_intrin_rule",
    **{
        name: f"autotune.tvm.tir.calls:{name}"
        for name in (
            "call_extern", "call_intrin", "call_llvm_intrin", "call_llvm_pure_intrin",
            "call_packed", "call_pure_extern", "call_pure_intrin",
        )
    },
    # TVM 0.6 had expressions and schedules at the top.
    "expr": "autotune.tvm.tir.expr",
    "ir_builder": "autotune.tvm.tir.ir_builder",
    "module": "autotune.tvm.runtime.module",
    "ndarray": "autotune.tvm.nd",
    "schedule": "autotune.tvm.te.schedule",
    "stmt": "autotune.tvm.tir.stmt",
    "tensor": "autotune.tvm.te.tensor",
    **{
        name: f"autotune.te:{name}"
        for name in (
            "abs", "all", "any", "ceil", "comm_reducer", "compute", "const", "create_schedule",
            "decl_buffer", "decl_tensor_intrin", "div", "erf", "exp", "extern", "floor",
            "floordiv", "floormod", "if_then_else", "indexdiv", "indexmod", "log", "max",
            "max_value", "min", "min_value", "placeholder", "popcount", "power", "reduce_axis",
            "round", "rsqrt", "scan", "select", "sigmoid", "size_var", "sqrt", "sum",
            "tag_scope", "tanh", "thread_axis", "trunc", "truncdiv",
            "truncmod", "var",
        )
    },
}  # fmt: skip

__all__ = [
    "IRModule",
    "TVMError",
    "__version__",
    "auto_scheduler",
    "autotvm",
    "build",
    "context",
    "contrib",
    "convert",
    "cpu",
    "cuda",
    "device",
    "driver",
    "error",
    "get_global_func",
    "gpu",
    "lower",
    "nd",
    "register_func",
    "relay",
    "rpc",
    "runtime",
    "target",
    "te",
    "testing",
    "tir",
    "topi",
    "transform",
]

_other = resolver(__name__)
explain_imports(GONE)
explain_imports(OTHERS, below=True)
explain_modules()


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    value = load(_HOMES[name]) if name in _HOMES else _other(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
