"""The child's side of `autotune.utils.children`: starting, the message port, and dying in time."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from typing import Any

from autotune.utils.children import FrameReader, write_frame

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def wake_with_parent() -> None:
    """Ask Linux to let this process go on, if it is paused, when its parent ends: then it can die.

    A paused process does not notice the end of a pipe.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


def die_with_parent(parent: int) -> None:
    """Ask Linux to kill this process alone when the thread that started it ends.

    For a forked trial only: a worker must outlive its parent by the moment it takes to kill its
    own process group.

    Args:
        parent: the expected parent; if it has ended already, this process ends at once.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def adopt() -> None:
    """Ask Linux to make every process ours whose parent ended, if it descends from us.

    One that left its process group and session is still found then, and can be ended.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def offer_to_oom_killer() -> None:
    """Let the system kill this process rather than its parent when memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def error_text(error: BaseException) -> str:
    """Return what an exception says, and behind the first line where it happened."""
    trace = "".join(traceback.format_exception(error))
    return f"{type(error).__name__}: {error}\n{trace}"


class Port:
    """The child's end of the two message pipes.

    By default a thread reads requests, so that the end of the parent is noticed while a job runs;
    the process group is then killed. A single-threaded child (one that forks) sets
    ``watch=False`` and checks for itself.
    """

    def __init__(self, requests: int, replies: int) -> None:
        self.requests = FrameReader(requests)
        self._replies = replies
        self._waiting: deque[bytes] = deque()
        self._arrived = threading.Semaphore(0)
        self._watched = False

    def watch(self) -> None:
        """Read requests in a thread from now on, and kill the process group when they end."""
        self._watched = True
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while (payload := self.requests.read()) is not None:
            self._waiting.append(payload)
            self._arrived.release()
        os.killpg(0, signal.SIGKILL)

    def receive(self) -> Any:
        """Wait for the next request; the process ends when there will be none."""
        if self._watched:
            self._arrived.acquire()
            return pickle.loads(self._waiting.popleft())
        payload = self.requests.read()
        if payload is None:
            os.killpg(0, signal.SIGKILL)
        return pickle.loads(payload or b"")

    def send(self, message: object) -> None:
        """Send one reply: anything JSON can hold."""
        write_frame(self._replies, json.dumps(message).encode())


def run(module: str, requests: int, replies: int, armed: int) -> None:
    """Start a child's module; called by the boot text in `autotune.utils.children`.

    Args:
        module: what to run.
        requests: pipe to read from.
        replies: pipe to write to.
        armed: pipe whose end tells the parent that this process may be paused from now on.
    """
    wake_with_parent()
    os.close(armed)
    offer_to_oom_killer()
    for fd in (requests, replies):
        os.set_inheritable(fd, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    importlib.import_module(module).main(Port(requests, replies))
