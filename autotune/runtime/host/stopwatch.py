"""Durations on the host, by wall clock, or by CPU time if the core was lost.

If the system takes a kernel of one thread off its core for other programs, its wall-clock time is
longer although it is not slower. Its CPU time is about what it would have taken on an idle
machine; if it keeps its core, both times are equal. For kernels of several threads there is no
such time, so it is only recorded that a thread has lost its core.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune.runtime.host.host_helper import MomentStruct, host_helper
from autotune.runtime.timing import Clocks

# Of the time of the thread that began, what others of the process may take that do not belong to
# what is timed; and of the wall time, what may be missing of it without a loss of the core.
_ASIDE, _MISSING = 0.01, 0.01
# What the CPU times of a thread and of its process may differ by because one is read before the
# other: of a run of nanoseconds, timed by itself, that is more than a hundredth.
_READING_S = 2e-6


@dataclass(frozen=True)
class Reading:
    """Clocks and counters of the system over one span.

    Attributes:
        wall_s: its length.
        thread_s: CPU time of the thread that ran it.
        process_s: CPU time of all threads of this process.
        waits: how often that thread gave its core away by itself, to wait for something.
        preemptions: how often the system took a core from a thread of this process.
    """

    wall_s: float
    thread_s: float
    process_s: float
    waits: int = 0
    preemptions: int = 0

    @property
    def is_of_one_thread(self) -> bool:
        """Whether one thread did all of it, and never waited: for a disk, a timer, another."""
        aside = self.process_s - self.thread_s
        return not self.waits and aside <= max(_ASIDE * self.thread_s, _READING_S)

    @property
    def is_cpu_time(self) -> bool:
        """Whether `seconds` are CPU time: one thread did it, and lost its core meanwhile."""
        return self.is_of_one_thread and self.process_s < (1 - _MISSING) * self.wall_s

    @property
    def is_preempted(self) -> bool:
        """Whether what was timed lost a core."""
        return self.is_cpu_time or (not self.is_of_one_thread and self.preemptions > 0)

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.process_s if self.is_cpu_time else self.wall_s


class Stopwatch:
    """Times spans on the host that follow each other, of a sample or of several.

    Attributes:
        seconds: of all spans since `restart`.
    """

    def __init__(self) -> None:
        self._ends = (MomentStruct * 2)()
        self.restart()

    @cached_property
    def _helper(self) -> ctypes.CDLL:
        return host_helper()

    def restart(self) -> None:
        """Forget what was timed."""
        self.seconds = 0.0
        self._by_cpu = self._preempted = False

    def run(self, structs: object, count: int, number: int) -> None:
        """Add ``number`` runs of what the helper was given, ``count`` of them in turn."""
        self._helper.autotune_time(structs, count, number, self._ends)
        self._add()

    def call(self, functions: Sequence[Callable[[], object]]) -> None:
        """Add calls of Python functions, one after another."""
        begin, end = (ctypes.byref(each) for each in self._ends)
        self._helper.autotune_begin(begin)
        for function in functions:
            function()
        self._helper.autotune_end(end)
        self._add()

    @property
    def clocks(self) -> Clocks | None:
        """The loss of cores during the time; None if there was none."""
        if not self._preempted:
            return None
        return Clocks(preempted=True, cpu_time=self._by_cpu)

    def _add(self) -> None:
        first, last = self._ends
        reading = Reading(
            last.wall_s - first.wall_s,
            last.thread_s - first.thread_s,
            last.process_s - first.process_s,
            last.waits - first.waits,
            last.preemptions - first.preemptions,
        )
        self.seconds += reading.seconds
        self._preempted |= reading.is_preempted
        self._by_cpu |= reading.is_cpu_time
