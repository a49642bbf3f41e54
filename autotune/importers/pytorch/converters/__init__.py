"""What ATen operators become, one file a family; importing it registers them all."""

from autotune.importers.pytorch.converters import (
    arithmetic,
    convolution,
    elementwise,
    experts,
    index,
    matrix,
    norm,
    pool,
    reduction,
    resize,
    shape,
    sort,
)

__all__ = [
    "arithmetic", "convolution", "elementwise", "experts", "index", "matrix", "norm", "pool",
    "reduction", "resize", "shape", "sort",
]  # fmt: skip
