"""TVM's `te.operation`."""

from typing import TYPE_CHECKING

from autotune.te import compute, placeholder, reduce_axis, size_var, tag_scope, thread_axis, var
from autotune.tvm.names import resolver

__all__ = ["compute", "placeholder", "reduce_axis", "size_var", "tag_scope", "thread_axis", "var"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
