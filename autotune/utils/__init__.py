"""Small helpers that know nothing of kernels: arithmetic, SI prefixes, child processes."""

from typing import TYPE_CHECKING

from autotune.utils.names import lent

if not TYPE_CHECKING:
    __getattr__ = lent(
        __name__, "EmptyContext format_si_prefix get_const_int get_const_tuple get_rank"
    )
