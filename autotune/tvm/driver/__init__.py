"""TVM's `driver`."""

from autotune.driver import lower
from autotune.tvm.driver.building import build

__all__ = ["build", "lower"]
