"""TVM's `driver.build_module`."""

from typing import TYPE_CHECKING

from autotune.driver import build, lower
from autotune.tvm.names import resolver

__all__ = ["build", "lower"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
