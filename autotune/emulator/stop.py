"""Asking an emulated kernel to stop and to report where its threads are, from another process."""

from __future__ import annotations

import ctypes
import mmap

# Seconds of processor time without an exit of a thread after which the emulator ends a launch,
# where nobody says otherwise; a thread performs some 10 ** 9 accesses in it.
LIMIT_S = 60.0


class StopFlag:
    """A byte that this process shares with its forks; while it is set, launches in these end.

    A kernel that runs on without an end leaves its process no other way to hear of it than memory,
    which the emulator's watchdog looks at.

    Attributes:
        asked: whether it was set by this process, whatever a kernel has written to the byte.
    """

    def __init__(self) -> None:
        self._byte = ctypes.c_char.from_buffer(mmap.mmap(-1, mmap.PAGESIZE))
        self.asked = False

    @property
    def address(self) -> int:
        """Where the byte is, in this process and its forks."""
        return ctypes.addressof(self._byte)

    def set(self) -> None:
        """Ask launches to end."""
        self._byte.value, self.asked = b"\1", True

    def clear(self) -> None:
        """Let launches run."""
        self._byte.value, self.asked = b"\0", False
