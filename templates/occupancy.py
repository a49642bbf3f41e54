"""Occupancy: how many blocks of a kernel a multiprocessor of an H100 or H200 holds at once."""

from __future__ import annotations

from . import common

_REGISTERS, _SHARED_BYTES, _THREADS = 65536, 228 * 1024, 2048
# Shared memory that the system has of each block.
_OF_SYSTEM = 1024


def resident_blocks(threads: int, registers: int, shared_bytes: int) -> int:
    """Return how many blocks fit, at least 1.

    Args:
        threads: of a block.
        registers: of a thread.
        shared_bytes: of a block.
    """
    by_registers = _REGISTERS // (registers * threads)
    by_memory = _SHARED_BYTES // (shared_bytes + _OF_SYSTEM)
    fit = common.smaller(common.smaller(by_registers, by_memory), _THREADS // threads)
    return common.larger(1, fit)
