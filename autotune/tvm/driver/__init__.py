"""TVM's `driver`."""

from autotune.driver import build, lower

__all__ = ["build", "lower"]
