"""TVM's errors."""

from autotune.errors import AutotuneError as TVMError

__all__ = ["TVMError"]
