"""TVM's name for the place of the errors."""

from autotune.errors import AutotuneError as TVMError

__all__ = ["TVMError"]
