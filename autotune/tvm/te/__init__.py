"""TVM's `te`: tensor expressions and schedules."""

from autotune.te import *
from autotune.te import __all__ as _ours

__all__ = [*_ours]
