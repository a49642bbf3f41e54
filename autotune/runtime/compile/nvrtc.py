"""NVRTC in child processes, because a library call cannot be timed out or killed.

They are kept: starting one and loading the library takes as long as compiling a small kernel.
"""

from __future__ import annotations

import atexit
import os
import signal
from typing import Any

from autotune.utils.children import Child, ChildDied, ChildTimeout
from autotune.utils.command import Completed

_MODULE = "autotune.runtime.compile.nvrtc_child"
# The child needs the standard library alone.
_BARE = ("autotune.runtime",)
# With a driver at hand NVRTC keeps a cache of its own, which prints no report of resources, and
# answers those who asked for no cache.
_ENVIRONMENT = {"CUDA_CACHE_DISABLE": "1"}
# Idle children; a request that takes one owns it.
_idle: list[Child] = []


def run_nvrtc(request: dict[str, Any], timeout_s: float) -> Completed:
    """Compile what ``request`` holds, see `autotune.runtime.compile.nvrtc_child`.

    Returns:
        how it ended, as a compiler that is a program would have: a negative status when the child
        died of the source.

    Raises:
        OSError: no child could be started.
    """
    while (kept := _take()) is not None:
        try:
            return _asked(kept, request, timeout_s)
        except ChildDied:
            continue  # perhaps long ago, of something else: a fresh one decides
    try:
        return _asked(Child(_MODULE, _ENVIRONMENT, _BARE), request, timeout_s)
    except ChildDied as error:
        died_of = error.exit_code or 0
        return Completed(died_of if died_of < 0 else -signal.SIGABRT, str(error))


def _take() -> Child | None:
    try:
        return _idle.pop()
    except IndexError:
        return None


def _asked(child: Child, request: dict[str, object], timeout_s: float) -> Completed:
    try:
        child.send(request)
        reply = child.receive(timeout_s)
    except ChildTimeout:
        child.close()
        return Completed(-signal.SIGKILL, "", timed_out=True)
    except BaseException:
        child.close()
        raise
    _idle.append(child)
    return Completed(int(reply["status"]), str(reply["log"]))


def _close_idle() -> None:
    while (child := _take()) is not None:
        child.close()


atexit.register(_close_idle)
# A fork shares the pipes, but the children answer one process only.
os.register_at_fork(after_in_child=_idle.clear)
