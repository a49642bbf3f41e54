"""TVM's `topi.tag`."""

from autotune.topi.tag import (
    BROADCAST,
    COMM_REDUCE,
    COMM_REDUCE_IDX,
    ELEMWISE,
    INJECTIVE,
    is_broadcast,
    is_injective,
)

__all__ = [
    "BROADCAST",
    "COMM_REDUCE",
    "COMM_REDUCE_IDX",
    "ELEMWISE",
    "INJECTIVE",
    "is_broadcast",
    "is_injective",
]
