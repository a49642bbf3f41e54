"""TVM's `_ffi.base`."""

from autotune.errors import AutotuneError as TVMError

__all__ = ["TVMError"]
