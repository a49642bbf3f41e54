"""TVM's `auto_scheduler.feature`."""

from autotune.auto_scheduler.feature import *
from autotune.auto_scheduler.feature import __all__ as _ours

__all__ = [*_ours]
