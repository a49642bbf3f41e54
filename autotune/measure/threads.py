"""A core for each thread of a kernel that is timed on the CPU."""

from __future__ import annotations

import contextlib
import os

from autotune.runtime.timing import Clocks, Sampler


def spread_threads() -> None:
    """Bind each thread of this process to a core of its own, if there are enough.

    The threads of an OpenMP kernel start where their process is. On a machine that is not idle
    they may stay on one core for long and wait for each other there, a scheduler's time slice at
    every barrier; the time then says nothing of the kernel.
    """
    if not hasattr(os, "sched_setaffinity") or "OMP_PROC_BIND" in os.environ:
        return
    cores = sorted(os.sched_getaffinity(0))
    with contextlib.suppress(OSError):
        threads = sorted(int(name) for name in os.listdir("/proc/self/task"))
        if 1 < len(threads) <= len(cores):
            for thread, core in zip(threads, cores, strict=False):
                os.sched_setaffinity(thread, {core})


class Spread:
    """A sampler that spreads the threads of its kernel after the first run has started them."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._spread = False
        self.input_sets = sampler.input_sets

    def sample(self, number: int) -> float:
        """Run and time; see `Sampler`."""
        seconds = self._sampler.sample(number)
        if not self._spread:
            self._spread = True
            spread_threads()
        return seconds

    def clocks(self) -> Clocks | None:
        """Return the state of the device; see `Sampler`."""
        return self._sampler.clocks()
