"""TVM's `topi.x86`: schedules, and operators, for one kind of target."""

from typing import TYPE_CHECKING

from autotune.tvm.names import resolver
from autotune.tvm.topi.schedules import members

if not TYPE_CHECKING:
    globals().update(members("x86"))
    __getattr__ = resolver(__name__)
