"""How many blocks a multiprocessor is to hold at once: the pragma ``min_blocks``.

A compiler that is told so gives a thread no more registers than that many blocks leave: by itself
it takes what makes one thread fastest, and one register too many may cost half of the threads.
"""

from __future__ import annotations

from autotune.errors import LoweringError
from autotune.lowering.plan import Plan
from autotune.te.stage import Stage

MIN_BLOCKS = "min_blocks"
# No multiprocessor holds more blocks; a compiler ignores what it cannot do.
MOST_BLOCKS = 32


def min_blocks_of(plan: Plan, root: Stage) -> int:
    """Return what the stages of a kernel ask for: the most of their pragmas, 0 without any.

    Raises:
        LoweringError: a pragma is no number of blocks.
    """
    stages = [stage for stage, planned in plan.stages.items() if planned.root is root]
    return max(
        (
            _checked(stage, value)
            for stage in stages
            for attr in stage.iter_attrs.values()
            for key, value in attr.pragmas
            if key == MIN_BLOCKS
        ),
        default=0,
    )


def _checked(stage: Stage, value: int | str) -> int:
    if isinstance(value, str) or not 0 <= value <= MOST_BLOCKS:
        raise LoweringError(
            f"pragma {MIN_BLOCKS} of {stage.op.name}: expected how many blocks a multiprocessor "
            f"is to hold, up to {MOST_BLOCKS}, or 0, got {value!r}"
        )
    return value
