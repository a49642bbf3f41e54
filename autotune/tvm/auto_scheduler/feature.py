"""TVM's `auto_scheduler.feature`."""

from typing import TYPE_CHECKING

from autotune.auto_scheduler.feature import *
from autotune.auto_scheduler.feature import __all__ as _ours
from autotune.tvm.names import resolver

__all__ = [*_ours]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
