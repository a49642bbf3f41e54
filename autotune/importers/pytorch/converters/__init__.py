"""What ATen operators become, one file a family; importing it registers them all."""

from autotune.importers.pytorch.converters import (
    arithmetic,
    convolution,
    elementwise,
    index,
    matrix,
    norm,
    pool,
    reduction,
    resize,
    shape,
)

__all__ = [
    "arithmetic", "convolution", "elementwise", "index", "matrix", "norm", "pool", "reduction",
    "resize", "shape",
]  # fmt: skip
