"""autotune: a stand-alone kernel autotuner in the style of AutoTVM, for CUDA and C.

One namespace serves both ``import autotune as autotvm`` and ``import autotune as tvm``: tasks,
tuners and logs stand here beside tensor expressions, arrays and `build`. Names are loaded when
first used, so that importing the package costs next to nothing.

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

import sys
from typing import TYPE_CHECKING, Any

from autotune.migration import Explainer, load, resolver
from autotune.version import __version__

if TYPE_CHECKING:
    from autotune import (
        contrib,
        database,
        driver,
        env,
        error,
        errors,
        feature,
        features,
        kernel,
        measure,
        nd,
        record,
        runtime,
        target,
        task,
        te,
        testing,
        tir,
        topi,
        transform,
        tuner,
        util,
        utils,
    )
    from autotune.driver import build, lower
    from autotune.errors import AutotuneError, InstantiationError
    from autotune.kernel import SourceKernel, arg, call, constant, workspace
    from autotune.measure import (
        LocalBuilder,
        LocalRunner,
        MeasureErrorNo,
        MeasureInput,
        MeasureResult,
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
            "contrib", "database", "driver", "env", "error", "errors", "feature", "features",
            "kernel", "measure", "nd", "record", "runtime", "target", "task", "te", "testing",
            "tir", "topi", "transform", "tuner", "util", "utils",
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
    "SourceKernel",
    "Target",
    "Task",
    "__version__",
    "apply_fixed_config",
    "apply_history_best",
    "arg",
    "build",
    "call",
    "callback",
    "constant",
    "contrib",
    "cpu",
    "create",
    "cuda",
    "database",
    "device",
    "driver",
    "env",
    "error",
    "errors",
    "feature",
    "features",
    "get_config",
    "gpu",
    "kernel",
    "load_module",
    "lower",
    "measure",
    "measure_option",
    "nd",
    "record",
    "register_topi_compute",
    "register_topi_schedule",
    "runtime",
    "target",
    "task",
    "te",
    "template",
    "testing",
    "tir",
    "topi",
    "transform",
    "tuner",
    "util",
    "utils",
    "workspace",
]


_other = resolver(__name__)
sys.meta_path.append(Explainer())


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    value = load(_HOMES[name]) if name in _HOMES else _other(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
