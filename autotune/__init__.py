"""autotune: a stand-alone kernel autotuner in the style of AutoTVM, for CUDA and C.

Tasks, tuners and logs stand here beside tensor expressions and `build`, and all public names of
AutoTVM, for ``import autotune as autotvm``; those of TVM are in `autotune.tvm`. Names are loaded
when first used, so that importing the package costs next to nothing.

Example::

    import autotune
    import autotune.templates

    task = autotune.create("gemm_nn.cpu", args=(512, 512, 512), target="llvm")
    tuner = autotune.tuner.XGBTuner(task)
    tuner.tune(100, autotune.measure_option("local", "local"),
               callbacks=[autotune.callback.log_to_file("gemm.log")])
    with autotune.apply_history_best("gemm.log"), autotune.target.Target("llvm"):
        multiply = autotune.build(autotune.templates.source.gemm_nn_cpu(512, 512, 512))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.utils.checkout import find_templates
from autotune.utils.names import explain_imports, lazy
from autotune.version import __version__

if TYPE_CHECKING:
    from autotune import (
        auto_scheduler,
        driver,
        errors,
        features,
        hub,
        importers,
        kernel,
        lock,
        measure,
        network,
        record,
        runtime,
        target,
        task,
        te,
        topi,
        torch,
        tuner,
        tvm,
        utils,
    )
    from autotune.driver import build, lower
    from autotune.errors import AutotuneError, InstantiationError
    from autotune.just_in_time import jit
    from autotune.kernel import SourceKernel, arg, call, constant, workspace
    from autotune.measure import (
        LocalBuilder,
        LocalRunner,
        MeasureErrorNo,
        MeasureInput,
        MeasureResult,
        Session,
        measure_option,
    )
    from autotune.record import apply_history_best
    from autotune.runtime import NDArray, cpu, cuda, device, gpu, load_module
    from autotune.target import Target
    from autotune.task import (
        ApplyFixedConfig,
        ConfigEntity,
        ConfigSpace,
        DispatchContext,
        FallbackContext,
        Task,
        create,
        get_config,
        register_topi_compute,
        register_topi_schedule,
        template,
    )
    from autotune.task import ApplyFixedConfig as apply_fixed_config
    from autotune.task.scope import GLOBAL_SCOPE
    from autotune.tuner import callback

# Public name -> where it lives; "module:name" for a thing in a module, "module" for a module.
_HOMES = {
    **{
        name: f"autotune.{name}"
        for name in (
            "auto_scheduler", "driver", "errors", "features", "hub", "importers", "kernel", "lock",
            "measure", "network", "record", "runtime", "target", "task", "te", "topi", "torch",
            "tuner", "tvm", "utils",
        )
    },
    "ApplyFixedConfig": "autotune.task:ApplyFixedConfig",
    "AutotuneError": "autotune.errors:AutotuneError",
    "ConfigEntity": "autotune.task:ConfigEntity",
    "ConfigSpace": "autotune.task:ConfigSpace",
    "DispatchContext": "autotune.task:DispatchContext",
    "FallbackContext": "autotune.task:FallbackContext",
    "GLOBAL_SCOPE": "autotune.task.scope:GLOBAL_SCOPE",
    "InstantiationError": "autotune.errors:InstantiationError",
    "LocalBuilder": "autotune.measure:LocalBuilder",
    "LocalRunner": "autotune.measure:LocalRunner",
    "MeasureErrorNo": "autotune.measure:MeasureErrorNo",
    "MeasureInput": "autotune.measure:MeasureInput",
    "MeasureResult": "autotune.measure:MeasureResult",
    "NDArray": "autotune.runtime:NDArray",
    "Session": "autotune.measure:Session",
    "SourceKernel": "autotune.kernel:SourceKernel",
    "Target": "autotune.target:Target",
    "Task": "autotune.task:Task",
    "apply_history_best": "autotune.record:apply_history_best",
    "apply_fixed_config": "autotune.task:ApplyFixedConfig",
    "arg": "autotune.kernel:arg",
    "build": "autotune.driver:build",
    "call": "autotune.kernel:call",
    "callback": "autotune.tuner.callback",
    "constant": "autotune.kernel:constant",
    "cpu": "autotune.runtime:cpu",
    "create": "autotune.task:create",
    "cuda": "autotune.runtime:cuda",
    "device": "autotune.runtime:device",
    "get_config": "autotune.task:get_config",
    "gpu": "autotune.runtime:gpu",
    "jit": "autotune.just_in_time:jit",
    "load_module": "autotune.runtime:load_module",
    "lower": "autotune.driver:lower",
    "measure_option": "autotune.measure:measure_option",
    "register_topi_compute": "autotune.task:register_topi_compute",
    "register_topi_schedule": "autotune.task:register_topi_schedule",
    "template": "autotune.task:template",
    "workspace": "autotune.kernel:workspace",
}  # fmt: skip

__all__ = [
    "GLOBAL_SCOPE",
    "ApplyFixedConfig",
    "AutotuneError",
    "ConfigEntity",
    "ConfigSpace",
    "DispatchContext",
    "FallbackContext",
    "InstantiationError",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "NDArray",
    "Session",
    "SourceKernel",
    "Target",
    "Task",
    "__version__",
    "apply_fixed_config",
    "apply_history_best",
    "arg",
    "auto_scheduler",
    "build",
    "call",
    "callback",
    "constant",
    "cpu",
    "create",
    "cuda",
    "device",
    "driver",
    "errors",
    "features",
    "get_config",
    "gpu",
    "hub",
    "importers",
    "jit",
    "kernel",
    "load_module",
    "lock",
    "lower",
    "measure",
    "measure_option",
    "network",
    "record",
    "register_topi_compute",
    "register_topi_schedule",
    "runtime",
    "target",
    "task",
    "te",
    "template",
    "topi",
    "torch",
    "tuner",
    "tvm",
    "utils",
    "workspace",
]

# AutoTVM's names for what we have elsewhere, or nowhere: then the wing says what to use.
_AUTOTVM = {
    name: f"autotune.tvm.autotvm:{name}"
    for name in (
        "RPCRunner", "apply_graph_best", "database", "env", "feature", "graph_tuner", "tophub",
        "util",
    )
}  # fmt: skip
# Names and modules of TVM that stood here; an attribute is looked up above first.
_TVM = """
    TVMError autotvm context contrib convert database env error feature measure.measure
    measure.measure_methods migration nd runtime.ndarray task.space testing tir topi.nn.util
    topi.nn.utils topi.nn.winograd_util topi.util transform tuner.gridsearch_tuner tuner.metric
    util"""
_GONE = {
    f"autotune.{name}": "TVM's names are in autotune.tvm: from autotune import tvm"
    for name in _TVM.split()
}
explain_imports(_GONE)
find_templates()

if not TYPE_CHECKING:
    __getattr__ = lazy(__name__, {**_AUTOTVM, **_HOMES}, _GONE)


def __dir__() -> list[str]:
    return __all__
