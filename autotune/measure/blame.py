"""Who is to blame when a process dies over a trial: the trial, or somebody else.

A trial is never judged by what others did; it is judged by evidence.

- A signal that the system sends for what code did itself (an invalid access, an abort) convicts
  the code that the process ran.
- A kill from outside (another user of the machine, a batch system) says nothing of the trial: it
  is done again in a fresh process, after a growing pause, and blamed only when it was killed so
  every time: a kernel may kill its own parent.
- Where the system had to kill something for want of memory meanwhile, twice is enough.
- A compiler that dies of neither is asked `STRIKES` times.
- A lack of room or of processes is nobody's fault. It passes, or it ends the run.
"""

from __future__ import annotations

import signal
from pathlib import Path

from autotune.measure.pauses import ATTEMPTS, PAUSES_S

# How often a trial may die of something that is most likely its own doing.
STRIKES = 3
_STARVED = 2

_FROM_OUTSIDE = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT}
)
_VMSTAT = Path("/proc/vmstat")


def killed_from_outside(exit_code: int | None) -> bool:
    """Whether another process ended the one with this exit status, as far as can be told.

    Args:
        exit_code: negative for a signal; None when it is not known.
    """
    return exit_code is not None and -exit_code in _FROM_OUTSIDE


class Case:
    """What happened to one trial so far, and whether to try it again."""

    def __init__(self) -> None:
        self._deaths = self._strikes = self._starved = self._shortages = 0
        self._oom_kills = oom_kills()

    def killed(self) -> bool:
        """Take note that it was killed from outside; return whether it is to blame now."""
        self._deaths += 1
        if (now := oom_kills()) > self._oom_kills:
            self._oom_kills = now
            self._starved += 1
        return self._deaths == ATTEMPTS or self._starved == _STARVED

    def struck(self) -> bool:
        """Take note that it died for reasons unknown; return whether it is to blame now."""
        self._strikes += 1
        return self._strikes == STRIKES

    def lacked(self) -> bool:
        """Take note that the machine had no room for it; return whether it never has."""
        self._shortages += 1
        return self._shortages == ATTEMPTS

    @property
    def tries(self) -> int:
        """How often it was tried in vain."""
        return self._deaths + self._strikes + self._shortages

    @property
    def pause_s(self) -> float:
        """Seconds to wait before it is tried again."""
        return PAUSES_S[min(self.tries, len(PAUSES_S)) - 1]

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
