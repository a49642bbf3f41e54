"""TVM's `driver.build_module`."""

from autotune.driver import build, lower

__all__ = ["build", "lower"]
