"""From what a template returns to something that runs.

`build` gives a callable `Module`, `lower` the loops of a schedule to read. `kernel_of` is what
both and all trials go through: a schedule or a hand-written source becomes the kernel for a
target; `kernel_hash` is the hash by which logs know it.
"""

from autotune.driver.as_built import as_built
from autotune.driver.build import build
from autotune.driver.kernel_hash import kernel_hash, kernel_hashes, source_hash
from autotune.driver.kernel_of import kernel_of
from autotune.lowering import lower

__all__ = [
    "as_built",
    "build",
    "kernel_hash",
    "kernel_hashes",
    "kernel_of",
    "lower",
    "source_hash",
]
