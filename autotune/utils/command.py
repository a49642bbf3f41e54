"""Runs a command, such as a compiler, to its end, or kills it with all that it started.

The command stays in the process group of its caller, because a worker that is killed is killed by
its group and must take its compilers along. A timeout therefore kills by descent, not by group.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.utils.deadline import LOOK_S, Deadline
from autotune.utils.environment import with_variables
from autotune.utils.exits import END_S, leave_behind

# How long the pipe of a killed command may stay open before what it printed is given up.
_DRAIN_S = 5.0
# Between two looks for children that became ours.
_LOOK_S = 1e-3


@dataclass(frozen=True)
class Completed:
    """The end of a command.

    Attributes:
        returncode: its exit status; negative: killed by that signal.
        output: what it printed.
        timed_out: whether it was killed because its time was over.
        seconds: how many counted, of a command that `run` ran.
    """

    returncode: int
    output: str
    timed_out: bool = False
    seconds: float = 0.0


def run(
    argv: Sequence[str],
    timeout_s: float | None = None,
    cwd: str | Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Completed:
    """Run a command; after ``timeout_s`` in which we run, kill it and all it started.

    Time in which it waits for a processor hardly counts, see `Deadline`. Its input is empty.
    Output and errors are joined, in the order written. An exception here, Ctrl-C included, kills
    the command as well. ``variables`` are set in its environment.

    Raises:
        FileNotFoundError: the program does not exist.
    """
    process = subprocess.Popen(
        list(argv),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=with_variables(variables or {}),
        encoding="utf-8",
        errors="replace",
    )
    deadline = Deadline(math.inf if timeout_s is None else timeout_s, process.pid)
    try:
        output = _output(process, deadline)
    except subprocess.TimeoutExpired:
        return Completed(*_killed(process), timed_out=True, seconds=deadline.counted_s)
    except BaseException:
        _killed(process)
        raise
    return Completed(process.returncode, output, seconds=deadline.counted_s)


def _output(process: subprocess.Popen[str], deadline: Deadline) -> str:
    """Return the output of a process to its end."""
    left_s = deadline.left_s()
    while True:
        try:
            return process.communicate(timeout=min(left_s, LOOK_S))[0]
        except subprocess.TimeoutExpired:
            left_s = deadline.left_s()
            if not left_s:
                raise


def _killed(process: subprocess.Popen[str]) -> tuple[int, str]:
    kill_tree(process.pid)
    try:
        output, _ = process.communicate(timeout=_DRAIN_S)
    except subprocess.TimeoutExpired:
        # A descendant that cut its ties holds the pipe; the command itself is gone.
        output = ""
    try:
        return process.wait(END_S), output
    except subprocess.TimeoutExpired:  # it waits in the kernel, for a disk perhaps
        assert process.stdout is not None
        process.stdout.close()
        return -signal.SIGKILL, f"{output}{leave_behind(process)}\n"


def kill_tree(root: int) -> None:
    """Kill process ``root`` and all its descendants.

    Each is stopped before its children are looked up, so that none is missed for being started in
    between. Where processes cannot be listed only ``root`` is killed.
    """
    doomed: list[int] = []
    pending = [root]
    while pending:
        pid = pending.pop()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGSTOP)
        doomed.append(pid)
        pending += [child for child in _children(pid) if child not in doomed]
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def end_children() -> None:
    """Kill and reap all children of this process, with all that they started.

    Those of others that ended become ours where `autotune.utils.child.adopt` was called.
    """
    with contextlib.suppress(ChildProcessError):  # there are none: the usual case
        while True:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
            for child in _children(os.getpid()):
                kill_tree(child)
            # Another may have become ours since, so that its end is not waited for.
            if not os.waitpid(-1, os.WNOHANG)[0]:
                time.sleep(_LOOK_S)


def _children(parent: int) -> list[int]:
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, encoding="utf-8", check=False
        )
        pairs = [line.split() for line in listed.stdout.splitlines()]
        return [int(pid) for pid, ppid in pairs if int(ppid) == parent]
    children = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in parentheses may hold anything; fields are counted after its end.
            fields = entry.read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(fields[1]) == parent:
                children.append(int(entry.parent.name))
    return children
