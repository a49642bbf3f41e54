"""Calls of kernels on the CPU where the helper in C cannot be compiled.

What was compiled elsewhere, such as a file of `export_library`, needs no compiler.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from autotune.errors import CompilerMissing
from autotune.runtime.host.host_helper import RunStruct, host_helper
from autotune.runtime.host.openmp import keep_openmp

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p))


def calling_helper() -> Any:
    """Return the helper in C; without a compiler `PlainCalls`, which only calls.

    Timing is left to the helper: a call from Python would be timed with Python's part of it.
    """
    try:
        return host_helper()
    except CompilerMissing:
        return PlainCalls()


class PlainCalls:
    """The helper's functions that call kernels, by `ctypes`."""

    _has_run = False

    def autotune_run(self, runs: Sequence[RunStruct]) -> None:
        """Do the first run."""
        run = runs[0]
        for each in run.zero[: run.n_zero]:
            ctypes.memset(each.start, 0, each.bytes)
        for call in run.calls[: run.n_calls]:
            _ENTRY(call.entry)(call.args)
        if not self._has_run:
            self._has_run = True
            keep_openmp()

    def autotune_repeat(self, runs: Sequence[RunStruct], n_runs: int, number: int) -> None:
        """Do runs in turn, a number of them."""
        for i in range(number):
            self.autotune_run(runs[i % n_runs : i % n_runs + 1])
