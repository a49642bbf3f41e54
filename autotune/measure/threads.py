"""A core for each thread of a kernel that is timed on the CPU."""

from __future__ import annotations

import contextlib
import os

from autotune.runtime.timing import Clocks, Sampler

# A kernel that starts threads in every run is timed with them where they are.
_MOST_TAKES = 3
# In so long a sample the scheduler has spread the threads itself.
_LONG_S = 0.1


class Cores:
    """The cores of this process, to which its threads are bound, one to each.

    The threads of an OpenMP kernel start where their process is. On a machine that is not idle
    they may stay on one core for long and wait for each other there, a scheduler's time slice at
    every barrier; the time then says nothing of the kernel.

    Made before any thread is bound: those that start later begin on the core of their parent.
    """

    def __init__(self) -> None:
        bindable = hasattr(os, "sched_setaffinity") and "OMP_PROC_BIND" not in os.environ
        self._cores = sorted(os.sched_getaffinity(0)) if bindable else []
        self._threads = _threads() if bindable else []

    def spread(self) -> bool:
        """Place the threads anew if others have come; return whether they have.

        Where there are more threads than cores, and for a thread alone, all are free to move.
        """
        if not self._cores:
            return False
        threads, before = _threads(), self._threads
        if threads == before:
            return False
        self._threads = threads
        one_each = 1 < len(threads) <= len(self._cores)
        for i, thread in enumerate(threads):
            with contextlib.suppress(OSError):  # it has ended since
                os.sched_setaffinity(thread, self._cores[i : i + 1] if one_each else self._cores)
        return not set(threads) <= set(before)


def _threads() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc/self/task"))


class Spread:
    """A sampler that spreads the threads of its kernel over the cores.

    A sample during which threads started is taken again: they all began on one core. Of kernels
    that are timed in turn, each may have to start threads that another one let go.

    Args:
        sampler: runs the kernel.
        cores: shared by all samplers of a process.
    """

    def __init__(self, sampler: Sampler, cores: Cores) -> None:
        self._sampler = sampler
        self._cores = cores
        self.input_sets = sampler.input_sets

    def sample(self, number: int) -> float:
        """Run and time; see `Sampler`."""
        for _ in range(_MOST_TAKES):
            seconds = self._sampler.sample(number)
            if not self._cores.spread() or seconds > _LONG_S:
                break
        return seconds

    def clocks(self) -> Clocks | None:
        """Return the state of the device; see `Sampler`."""
        return self._sampler.clocks()
