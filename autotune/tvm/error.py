"""TVM's errors."""

from autotune.errors import AutotuneError as TVMError

__all__ = ["InternalError", "TVMError"]

InternalError = TVMError
