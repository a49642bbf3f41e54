"""TVM's `runtime`."""

from typing import TYPE_CHECKING

from autotune.runtime import *
from autotune.runtime import __all__ as _ours
from autotune.tvm.names import resolver

__all__ = [*_ours]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
