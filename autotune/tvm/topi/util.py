"""TVM's name of `topi.utils` up to 0.7."""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver
from autotune.tvm.topi.utils import *
from autotune.tvm.topi.utils import __all__ as _same

__all__ = [*_same]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
