"""TVM's `te.operation`."""

from autotune.te import (
    ComputeOp,
    Operation,
    PlaceholderOp,
    ScanOp,
    compute,
    placeholder,
    reduce_axis,
    scan,
    size_var,
    tag_scope,
    thread_axis,
    var,
)

__all__ = [
    "ComputeOp",
    "Operation",
    "PlaceholderOp",
    "ScanOp",
    "compute",
    "placeholder",
    "reduce_axis",
    "scan",
    "size_var",
    "tag_scope",
    "thread_axis",
    "var",
]
