"""The hints that `pragma` gives loops, by the names that have an effect."""

from __future__ import annotations

from autotune.te.location import warn_user
from autotune.te.stage_state import IMPORTS
from autotune.utils.names import did_you_mean

KNOWN = (
    "auto_unroll_max_step", "unroll_explicit", "tensor_core", "wgmma", "persistent", "min_blocks",
    *IMPORTS,
)  # fmt: skip


def warn_of_slip(key: str) -> None:
    """Warn where a hint without effect may be meant for one that has some."""
    if isinstance(key, str) and key not in KNOWN and (meant := did_you_mean(key, KNOWN)):
        warn_user(f"pragma: {key!r} has no effect{meant}")
