"""Deferred release of memory, modules, streams and graphs, which a stream capture forbids.

Freeing or unloading something while a stream is captured into a graph ends that capture, unless
the thread's mode is relaxed (CUDA driver API, cuThreadExchangeStreamCaptureMode). But Python drops
objects whenever its collector runs, so also during a capture: one of autotune, or one of a user
who captures with torch, in the strictest mode by default. So owners of driver objects hand them to
this module. They are released at once in relaxed mode or, if a capture is seen, when the next one
is handed over or allocated after it. Recognised are captures of this package, those of the streams
that are current to torch and CuPy in this thread, and those of streams that the default stream
waits for. For captures of other threads the relaxed mode suffices.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from autotune.errors import DeviceError
from autotune.runtime.call.streams import current_streams
from autotune.runtime.nvidia import libcuda
from autotune.utils.garbage import collection_paused

# Left by threads and collections in any order; taken by who has the lock, for which nobody waits:
# a collection may come in the middle of giving back.
_waiting: deque[tuple[int, Callable[[], object]]] = deque()
_giving_back = threading.Lock()
_own_captures = 0
_counting = threading.Lock()


def leave(context: int, give_back: Callable[[], object]) -> None:
    """Free a resource as soon as no capture prevents it. May be called from any thread.

    Args:
        context: the context that is current during the call.
        give_back: frees the resource; called again later if it raises a `libcuda.CaptureError`.
            Other errors are ignored, since after a fault every call of the driver fails.
    """
    _waiting.append((context, give_back))
    give_back_waiting()


def give_back_waiting() -> None:
    """Give back what was left, unless a capture is under way."""
    while _waiting and not _is_capturing() and _giving_back.acquire(blocking=False):
        try:
            if not _emptied():
                return
        finally:
            _giving_back.release()


def _emptied() -> bool:
    """Give back all; return False if a capture came in the way."""
    while _waiting:
        context, give_back = _waiting.popleft()
        try:
            with libcuda.entered(context):
                if libcuda.is_captured(0):
                    raise libcuda.CaptureError("the default stream waits for one that is captured")
                give_back()
        except libcuda.CaptureError:
            _waiting.appendleft((context, give_back))
            return False
        except DeviceError:
            continue
    return True


def _is_capturing() -> bool:
    return _own_captures > 0 or any(map(libcuda.is_captured, current_streams()))


@contextmanager
def capture_under_way() -> Iterator[None]:
    """Let everything that is left wait until the end; the collector does too.

    What other libraries own is out of our hands, but would not go during a capture without it.
    """
    global _own_captures
    with _counting:
        _own_captures += 1
    try:
        with collection_paused():
            yield
    finally:
        with _counting:
            _own_captures -= 1
        give_back_waiting()
