"""TVM's `driver.build_module`."""

from autotune.tvm.driver.building import build
from autotune.tvm.driver.lowering import lower

__all__ = ["build", "lower"]
