"""TVM's name of `topi.utils` up to 0.7."""

from autotune.tvm.topi.utils import *
from autotune.tvm.topi.utils import __all__ as _same

__all__ = [*_same]
