"""TVM's `auto_scheduler`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler import *
from autotune.auto_scheduler import __all__ as _ours
from autotune.tvm.names import resolver

__all__ = [*_ours]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
