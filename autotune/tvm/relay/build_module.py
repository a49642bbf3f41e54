"""TVM's ``relay.build_module``: from a module and its parameters to something that runs."""

from autotune.tvm.driver.build_config import build_config
from autotune.tvm.relay.executor import create_executor
from autotune.tvm.relay.library import (
    GraphExecutorFactoryModule,
    bind_params_by_name,
    build,
    optimize,
)

__all__ = [
    "GraphExecutorFactoryModule",
    "bind_params_by_name",
    "build",
    "build_config",
    "create_executor",
    "optimize",
]
