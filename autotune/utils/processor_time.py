"""What a process and all that it started get of the processors, as Linux tells it.

Elsewhere nothing is known, and time counts as it passes.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

# A host on which a process gets less than this part of a processor may as well be down.
_LEAST = 1 / 30
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class ProcessorTime:
    """Tells time that a tree of processes worked or slept from time without a processor.

    Args:
        root: process id of the first; its descendants are looked up each time.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        # What it started for another job has ended, and is in its own account.
        self._used_s = _look_at(root, alone=True)[1]

    def counted_s(self, passed_s: float) -> float:
        """Return how much counts of the time since this was called last.

        Where no thread of theirs wants a processor, all of it: they wait for something else, or
        hang. Else what they had of the processors, and little of what they waited for one.
        """
        ready, used_s = _look_at(self._root)
        worked_s = min(max(0.0, used_s - self._used_s), passed_s)
        self._used_s = used_s
        return worked_s + (passed_s - worked_s) * (_LEAST if ready else 1.0)


def _look_at(root: int, alone: bool = False) -> tuple[bool, float]:
    """Return whether a thread of a tree runs or is ready to, and the seconds they all ran."""
    ready, ticks, pending = False, 0, [root]
    ended_or_unknown = contextlib.suppress(OSError, IndexError, ValueError)
    while pending:
        process = Path(f"/proc/{pending.pop()}")
        with ended_or_unknown:
            ticks += sum(map(int, _fields(process)[11:15]))  # also of children that it has reaped
            for thread in () if alone else (process / "task").iterdir():
                with ended_or_unknown:
                    ready = ready or _fields(thread)[0] == "R"
                    pending += map(int, (thread / "children").read_text().split())
    return ready, ticks * _TICK_S


def _fields(of: Path) -> list[str]:
    """Return what Linux tells of a process or thread, from its state on."""
    # The name in parentheses may hold anything.
    return (of / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
