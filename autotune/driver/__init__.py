"""From what a template returns to something that runs."""

from autotune.driver.kernel_of import kernel_of

__all__ = ["kernel_of"]
