"""TVM's `topi.testing`: operators in numpy."""

from typing import TYPE_CHECKING

from autotune.topi.testing import *
from autotune.topi.testing import __all__ as _ours
from autotune.tvm.names import resolver

__all__ = [*_ours]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
