"""TVM's ``relay.build_module``: from a module and its parameters to something that runs."""

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
    "create_executor",
    "optimize",
]
