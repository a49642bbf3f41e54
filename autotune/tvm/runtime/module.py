"""TVM's `runtime.module`."""

from typing import TYPE_CHECKING

from autotune.runtime.module import BenchmarkResult, Module, load_module
from autotune.tvm.names import resolver

__all__ = ["BenchmarkResult", "Module", "load_module"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
