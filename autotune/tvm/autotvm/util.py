"""AutoTVM's name of `utils` up to 0.7."""

from autotune.tvm.autotvm.utils import (
    EmptyContext,
    format_si_prefix,
    get_const_int,
    get_const_tuple,
    get_rank,
    sample_ints,
)

__all__ = [
    "EmptyContext",
    "format_si_prefix",
    "get_const_int",
    "get_const_tuple",
    "get_rank",
    "sample_ints",
]
