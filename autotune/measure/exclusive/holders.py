"""The holders of a lock, from Linux's ``/proc``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from autotune.utils.children import is_child

_LONGEST = 80


def held_by_ancestor(file: int) -> bool:
    """Whether this process, or one that it descends from, holds a lock on an open file.

    An ancestor that belongs to another user cannot be looked into, and is taken for a stranger.
    """
    mine = os.fstat(file)
    return any(_holds(pid, mine, file) for pid in _ancestry(os.getpid()))


def _holds(pid: int, wanted: os.stat_result, file: int) -> bool:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for fd in os.listdir(folder):
            if pid == os.getpid() and int(fd) == file:
                continue
            with suppress(OSError):
                if os.path.samestat(os.stat(f"{folder}/{fd}"), wanted) and "FLOCK" in Path(
                    f"/proc/{pid}/fdinfo/{fd}"
                ).read_text("ascii", "replace"):
                    return True
    return False


def _ancestry(pid: int) -> Iterator[int]:
    """Yield a process, its parent, and so on."""
    while pid > 1:
        yield pid
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
        except OSError:
            return
        # The name of the program is in brackets and may hold any character.
        pid = int(stat.rpartition(")")[2].split()[1])


def holder(path: str) -> str:
    """Return a description of the process that holds a lock on a file; empty if unknown."""
    with suppress(OSError, ValueError, IndexError):
        inode = os.stat(path).st_ino
        for line in Path("/proc/locks").read_text("ascii", "replace").splitlines():
            words = line.split()
            if "->" in words or words[1] != "FLOCK" or int(words[5].split(":")[-1]) != inode:
                continue
            return named(int(words[4]))
    return ""


def named(pid: int) -> str:
    """Return a process in words; one that a run of autotune started is named as the run."""
    for each in _ancestry(pid):
        words = _words(each)
        if not is_child(words):
            command = "".join(c if c.isprintable() else "?" for c in " ".join(words))
            return f"process {each}" + (f" ({command[:_LONGEST]})" if command else "")
    return f"process {pid}"


def _words(pid: int) -> list[str]:
    """Return the command line of a process; empty if unknown."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
        return text.rstrip("\0").split("\0")
    return []
