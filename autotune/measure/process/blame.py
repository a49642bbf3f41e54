"""Blame for the death of a process over a trial: the trial's, or another's.

A trial is never judged by what others did; it is judged by evidence.

- A signal that the system sends for what code did itself (an invalid access, an abort) convicts
  the code that the process ran.
- A kill from outside (another user of the machine, a batch system) says nothing of the trial: it
  is done again in a fresh process, after a growing pause, and blamed only when it was killed so
  every time: a kernel may kill its own parent.
- Where the system had to kill something for want of memory meanwhile, twice is enough.
- A compiler that dies of neither is asked `STRIKES` times.
- A lack of space or of processes is nobody's fault. It passes, or it ends the run.
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
STRIKES = 3
_STARVED = 2

_FROM_OUTSIDE = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}
)
_VMSTAT = Path("/proc/vmstat")
# In the words of the C library, as compilers and Python pass them on.
_NO_ROOM = re.compile("No space left on device|Disk quota exceeded")


def tells_of_no_room(message: str) -> bool:
    """Whether a message says that a disk was full."""
    return _NO_ROOM.search(message) is not None


def killed_from_outside(exit_code: int | None) -> bool:
    """Whether another process ended the one with this exit status, as far as can be told.

    Args:
        exit_code: negative for a signal; None when it is not known.
    """
    return exit_code is not None and -exit_code in _FROM_OUTSIDE


class Memory:
    """Whether memory ran out lately. Looking takes too long to be done for each trial."""

    def __init__(self) -> None:
        self._oom_kills = oom_kills()

    def ran_out(self) -> bool:
        """Return whether Linux killed anything for want of memory since the last look."""
        before, self._oom_kills = self._oom_kills, oom_kills()
        return self._oom_kills > before


class Case:
    """The failures so far of one trial, or of one attempt to start, and whether to try again.

    Args:
        memory: tells what a kill is due to; None where that makes no difference.
    """

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory
        self._deaths = self._strikes = self._starved = self._shortages = 0

    def killed(self) -> bool:
        """Take note that it was killed from outside; return whether it is to blame now."""
        self._deaths += 1
        self._starved += self._memory is not None and self._memory.ran_out()
        return self._deaths == ATTEMPTS or self._starved == _STARVED

    def struck(self) -> bool:
        """Take note that it died for reasons unknown; return whether it is to blame now."""
        self._strikes += 1
        return self._strikes == STRIKES

    def lacked(self) -> bool:
        """Record that the machine had no space for it; return whether it never has."""
        self._shortages += 1
        return self._shortages == ATTEMPTS

    @property
    def tries(self) -> int:
        """The number of failed attempts."""
        return self._deaths + self._strikes + self._shortages

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
