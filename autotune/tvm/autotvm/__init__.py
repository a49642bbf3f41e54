"""AutoTVM's names: templates, tasks, tuners, measuring and logs."""

from typing import TYPE_CHECKING

from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    measure_option,
)
from autotune.record import apply_history_best

# Graph tuners write the best records of layers, which are replayed as any others.
from autotune.record import apply_history_best as apply_graph_best
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
from autotune.task.template import offer_library
from autotune.tvm.autotvm.measure.measure_methods import RPCRunner
from autotune.tvm.autotvm.tuner import callback

if TYPE_CHECKING:
    from autotune.tvm.autotvm import (
        database,
        env,
        feature,
        graph_tuner,
        measure,
        record,
        task,
        tophub,
        tuner,
        util,
        utils,
    )

__all__ = [
    "GLOBAL_SCOPE",
    "ApplyFixedConfig",
    "ConfigEntity",
    "ConfigSpace",
    "DispatchContext",
    "FallbackContext",
    "LocalBuilder",
    "LocalRunner",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "RPCRunner",
    "Task",
    "apply_fixed_config",
    "apply_graph_best",
    "apply_history_best",
    "callback",
    "create",
    "database",
    "env",
    "feature",
    "get_config",
    "graph_tuner",
    "measure",
    "measure_option",
    "record",
    "register_topi_compute",
    "register_topi_schedule",
    "task",
    "template",
    "tophub",
    "tuner",
    "util",
    "utils",
]

offer_library("autotune.templates")  # TVM's templates are registered as soon as it is imported
