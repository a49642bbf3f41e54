"""Which of its indices a kernel reads, by its text.

A kernel that asks for its block or thread is written for several of them, so a launch that leaves
the grid or the block out is a mistake.
"""

from __future__ import annotations

from autotune.errors import KernelError
from autotune.kernel.entry import plain_name
from autotune.kernel.kernel import KernelCall
from autotune.kernel.prototype import words_used

# What of a launch each index belongs to. Cooperative groups ask for both.
_INDICES = {
    "grid": ("blockIdx", "gridDim", "this_grid"),
    "block": ("threadIdx", "blockDim", "this_thread_block", "this_grid"),
}
_EXAMPLES = {"grid": "grid=-(-n // 256)", "block": "block=256"}


def check_launch_given(kernel: str, source: str, one: KernelCall) -> None:
    """Check that a call in CUDA gives the parts of a launch that its kernel asks for.

    Raises:
        KernelError: the grid or the block was left out, and the kernel reads an index of it.
    """
    if not one.omitted:
        return
    read = words_used(source, plain_name(one.entry))
    missing = {
        part: next(index for index in _INDICES[part] if index in read)
        for part in one.omitted
        if not read.isdisjoint(_INDICES[part])
    }
    if not missing:
        return
    of = "" if one.entry == kernel else f", entry {one.entry!r}"
    raise KernelError(
        f"kernel {kernel!r}{of}: it reads {' and '.join(dict.fromkeys(missing.values()))}, so its "
        f"launch must say how many there are: {', '.join(_EXAMPLES[part] for part in missing)}; "
        f"if one is meant, {', '.join(f'{part}=1' for part in missing)}"
    )
