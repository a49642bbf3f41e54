"""TVM's `te.operation`."""

from autotune.te import compute, placeholder, reduce_axis, size_var, tag_scope, thread_axis, var

__all__ = ["compute", "placeholder", "reduce_axis", "size_var", "tag_scope", "thread_axis", "var"]
