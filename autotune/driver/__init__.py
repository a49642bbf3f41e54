"""From what a template returns to something that runs."""

from typing import TYPE_CHECKING

from autotune.driver.build import build
from autotune.driver.kernel_hash import kernel_hash
from autotune.driver.kernel_of import kernel_of
from autotune.lowering import lower
from autotune.migration import resolver

__all__ = ["build", "kernel_hash", "kernel_of", "lower"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
