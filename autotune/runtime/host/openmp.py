"""The OpenMP runtime, which kernels on the CPU load: kept, and ready for forks."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_GCC = "libgomp.so.1"
# The runtimes of GCC and of Clang.
_EVERY = (_GCC, "libomp.so.5", "libomp.so", "libiomp5.so")
_PAUSE_SOFT = 1


def keep_openmp() -> None:
    """Keep the runtime that kernels have loaded, as the helper in C does.

    Its threads would not survive being unloaded with the last kernel.
    """
    for name in _EVERY:
        _loaded(name)


def _loaded(name: str) -> ctypes.CDLL | None:
    """Return a library if this process has loaded it."""
    with suppress(OSError):
        return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    return None


def _end_threads() -> None:
    """End the threads of GCC's runtime that wait for work of this thread.

    A fork has no threads but the one that forked, and GCC's runtime would wait there for the
    others for ever, in the next parallel loop. Clang's starts new ones by itself. Both processes
    start them when they next need them.
    """
    library = _loaded(_GCC)
    pause = getattr(library, "omp_pause_resource_all", None)  # GCC 9 and later
    if pause is not None:
        pause(_PAUSE_SOFT)


os.register_at_fork(before=_end_threads)
