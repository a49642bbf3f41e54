"""TVM's `runtime.module`."""

import os
from typing import TYPE_CHECKING, Any

from autotune.errors import KernelError
from autotune.network.export import is_network, load_network
from autotune.runtime import module
from autotune.runtime.evaluator import BenchmarkResult
from autotune.runtime.module import Module
from autotune.tvm.names import resolver
from autotune.utils.check import Check

__all__ = ["BenchmarkResult", "Module", "load", "load_module"]


def load_module(path: str | os.PathLike[str], fmt: str = "") -> Any:
    """Return a function, or a library of a network, that ``export_library`` wrote.

    The file holds machine code, which runs in this process: load only files that you trust.
    """
    Check(KernelError, "load_module").path("path", path)
    if not is_network(path):
        return module.load_module(path)
    # Most who load a module have no network.
    from autotune.tvm.relay.build_module import GraphExecutorFactoryModule

    return GraphExecutorFactoryModule(load_network(path))


load = load_module  # its name in TVM 0.6


if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
