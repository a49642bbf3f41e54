"""Guarded buffers: memory between unmapped pages, so that an access out of bounds faults."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import numpy.typing as npt

from autotune.utils.math import round_up


class GuardedBuffer:
    """Memory with unmapped pages around it, so that a stray access is not someone else's.

    Accesses out of bounds of a checked kernel are reported wherever its arguments are, unless they
    land in another argument; with guards they cannot. Memory that was not written holds ``fill``
    in each byte: a NaN as a float, -1 as an integer.
    """

    def __init__(self, size: int, fill: int = 0xFF) -> None:
        page = mmap.PAGESIZE
        inner = round_up(max(size, 1), page)
        self._map = mmap.mmap(-1, inner + 2 * page)
        view = np.frombuffer(self._map, np.uint8)
        start = page + (inner - size) // 256 * 256
        self.bytes = view[start : start + size]
        self.bytes[:] = fill
        base = view.ctypes.data
        for guard in (base, base + page + inner):
            _forbid(guard, page)

    @property
    def address(self) -> int:
        """Address of the first byte, a multiple of 256."""
        return int(self.bytes.ctypes.data)

    def write(self, array: npt.NDArray[np.generic]) -> None:
        """Copy an array of the same size in bytes into the buffer."""
        self.bytes[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def read_into(self, array: npt.NDArray[np.generic]) -> None:
        """Copy the buffer into an array of the same size in bytes."""
        array[...] = self.bytes.view(array.dtype).reshape(array.shape)


def _forbid(address: int, size: int) -> None:
    """Make pages fault; where the system has no such call they stay plain padding."""
    mprotect = getattr(ctypes.CDLL(None), "mprotect", None)
    if mprotect is not None:
        mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), 0)
