"""Figures of this machine's CPU that closed forms need and no record keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
# Of the flags by which Linux names instruction sets -> bytes of their vectors, and the registers
# that sums and operands may fill: of 32, GCC 12 begins to spill where all but three are full.
_VECTORS = {"avx512f": (64, 28), "avx": (32, 16), "asimd": (16, 32)}


@dataclass(frozen=True)
class HostModel:
    """One core.

    Attributes:
        vector_bytes: of the vectors that compilers use on it.
        registers: such vectors that code can name and compilers fill.
        frequency: cycles per second.
        l1_bytes: of the first cache.
        l2_bytes: of the second cache.
        l1_rate: bytes that it loads a cycle from the second cache to the first.
        l2_rate: the same from what is behind the second.
        latency: cycles until the sum of a multiply-add can be added to.
    """

    vector_bytes: int = 32
    registers: int = 16
    frequency: float = 3e9
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 512 * 1024
    l1_rate: float = 32.0
    l2_rate: float = 8.0
    latency: float = 4.0

    @staticmethod
    @cache
    def here() -> HostModel:
        """Return what is known of this machine; of an unknown one, that of most x86."""
        try:
            words = set(_CPUINFO.read_text("utf-8", "replace").split())
        except OSError:
            return HostModel()
        for flag, (vector_bytes, registers) in _VECTORS.items():
            if flag in words:
                return HostModel(vector_bytes, registers)
        return HostModel()
