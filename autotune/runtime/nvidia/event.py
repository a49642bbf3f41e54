"""CUDA events, by the driver's own C interface.

They may be dropped in any thread and during a capture (see `releases`), where PyCUDA never
destroys its own.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import partial
from typing import Any

from autotune.runtime.nvidia import releases
from autotune.runtime.nvidia.libcuda import call, current_context

# CU_EVENT_DISABLE_TIMING, of cuEventCreate.
_NO_TIMING = 2
# CU_EVENT_RECORD_EXTERNAL: while a stream is captured the event becomes a node of the graph.
_EXTERNAL = 1


class Event:
    """A mark on a stream of the context that is current.

    Args:
        timing: whether its time will be read; otherwise it only orders streams, and is cheaper.

    Raises:
        DeviceError: the driver has no memory left.
    """

    def __init__(self, timing: bool = True) -> None:
        self._event = ctypes.c_void_p()
        destroy = partial(_destroy, self._event)
        weakref.finalize(self, releases.leave, current_context(), destroy)
        flags = ctypes.c_uint(0 if timing else _NO_TIMING)
        call("cuEventCreate", ctypes.byref(self._event), flags)

    def record(self, stream: Any) -> None:
        """Queue it on a stream of PyCUDA's; it happens when all that was queued before is done."""
        call("cuEventRecord", self._event, ctypes.c_void_p(stream.handle))

    def record_in_graph(self, stream: Any) -> None:
        """Queue it on a stream that is being captured, so that each launch of the graph marks it.

        Raises:
            DeviceError: it cannot be queued.
        """
        handle = ctypes.c_void_p(stream.handle)
        call("cuEventRecordWithFlags", self._event, handle, ctypes.c_uint(_EXTERNAL))

    def hold(self, stream: Any) -> None:
        """Let what is queued on a stream from now on wait until it has happened."""
        call("cuStreamWaitEvent", ctypes.c_void_p(stream.handle), self._event, ctypes.c_uint(0))

    def synchronize(self) -> None:
        """Wait until it has happened; other threads of Python run meanwhile."""
        call("cuEventSynchronize", self._event)

    def seconds_till(self, later: Event) -> float:
        """Return the seconds to another event; both have happened.

        Raises:
            DeviceError: one of them has not.
        """
        found = ctypes.c_float()
        call("cuEventElapsedTime", ctypes.byref(found), self._event, later._event)
        return found.value * 1e-3


def _destroy(event: ctypes.c_void_p) -> None:
    if event.value:
        call("cuEventDestroy_v2", event)
