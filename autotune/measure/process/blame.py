"""Blame for the death of a process during a trial: the trial's own fault, or another cause.

- A signal that code causes itself (an invalid access, an abort) is the fault of the trial.
- A kill from outside (by another user of the machine, or a batch system) proves nothing: the trial
  is repeated in a new process, after a growing pause. It is blamed only if it is killed each time,
  since a kernel may kill its own parent.
- If the system ran out of memory meanwhile and killed something, two kills are enough.
- A compiler that dies of neither is run `CRASHES` times.
- A lack of space or of processes is not the fault of a trial. Either it passes, or the run ends.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

# Seconds before each further attempt at what lacked something or was killed. Together they outlast
# a passing shortage of memory, processes or disk, and processes killed at random.
PAUSES_S = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
ATTEMPTS = len(PAUSES_S) + 1
# How often a trial may die of something that is most likely its own doing.
CRASHES = 3
_STARVED = 2

_FROM_OUTSIDE = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}
)
_VMSTAT = Path("/proc/vmstat")
# In the words of the C library, as compilers and Python pass them on.
_DISK_FULL = re.compile("No space left on device|Disk quota exceeded")


def means_disk_full(message: str) -> bool:
    """Whether a message says that a disk was full."""
    return _DISK_FULL.search(message) is not None


def killed_from_outside(exit_code: int | None) -> bool:
    """Whether another process seems to have killed the one with this exit status.

    Args:
        exit_code: negative for a signal; None when it is not known.
    """
    return exit_code is not None and -exit_code in _FROM_OUTSIDE


class OutOfMemoryWatch:
    """Tells whether memory ran out lately. Asking takes too long to do it for each trial."""

    def __init__(self) -> None:
        self._oom_kills = oom_kills()

    def ran_out(self) -> bool:
        """Return whether Linux killed a process for lack of memory since the last call."""
        before, self._oom_kills = self._oom_kills, oom_kills()
        return self._oom_kills > before


class Attempts:
    """The failures so far of one trial, or of one attempt to start, and whether to try again.

    Args:
        memory: tells what a kill is due to; None where that makes no difference.
    """

    def __init__(self, memory: OutOfMemoryWatch | None = None) -> None:
        self._memory = memory
        self._kills = self._crashes = self._starved = self._shortages = 0

    def record_kill(self) -> bool:
        """Record a kill from outside; return whether the trial is to blame."""
        self._kills += 1
        self._starved += self._memory is not None and self._memory.ran_out()
        return self._kills == ATTEMPTS or self._starved == _STARVED

    def record_crash(self) -> bool:
        """Record a death for unknown reasons; return whether the trial is to blame."""
        self._crashes += 1
        return self._crashes == CRASHES

    def record_shortage(self) -> bool:
        """Record that the machine had no space for it; return whether it never has."""
        self._shortages += 1
        return self._shortages == ATTEMPTS

    @property
    def tries(self) -> int:
        """The number of failed attempts."""
        return self._kills + self._crashes + self._shortages

    @property
    def pause_s(self) -> float:
        """Seconds to wait before the next try."""
        return PAUSES_S[min(self.tries, len(PAUSES_S)) - 1] if self.tries else 0.0

    def verdict(self, message: str) -> str:
        """Return the message of the trial that is blamed after all, with why in its first line."""
        first, newline, rest = message.partition("\n")
        return f"{first}, {self.tries} times in a row{newline}{rest}"


def oom_kills() -> int:
    """Return how often Linux has killed a process for want of memory; 0 where it does not say."""
    try:
        words = _VMSTAT.read_text().split()
        return int(words[words.index("oom_kill") + 1])
    except (OSError, ValueError, IndexError):
        return 0
