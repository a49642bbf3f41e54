"""AutoTVM's name of `utils` up to 0.7."""

from typing import TYPE_CHECKING

from autotune.tvm.autotvm.utils import (
    EmptyContext,
    format_si_prefix,
    get_const_int,
    get_const_tuple,
    get_rank,
    sample_ints,
)
from autotune.tvm.names import resolver

__all__ = [
    "EmptyContext",
    "format_si_prefix",
    "get_const_int",
    "get_const_tuple",
    "get_rank",
    "sample_ints",
]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
