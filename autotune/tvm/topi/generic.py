"""TVM's `topi.generic`: schedules for the current target."""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver
from autotune.tvm.topi.schedules import members

if not TYPE_CHECKING:
    globals().update(members("generic"))
    __getattr__ = resolver(__name__)
