"""TVM's `_ffi.base`."""

from typing import TYPE_CHECKING

from autotune.errors import AutotuneError as TVMError
from autotune.tvm.names import resolver

__all__ = ["TVMError"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
