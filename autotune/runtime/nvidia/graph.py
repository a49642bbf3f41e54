"""CUDA graphs by the driver's own C interface: PyCUDA has none.

The calls act on the context that is current, and on streams that PyCUDA made.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from autotune.runtime.nvidia import releases
from autotune.runtime.nvidia.libcuda import (
    RELAXED,
    address,
    call,
    check,
    current_context,
    library,
)


class _NodeParams(ctypes.Structure):
    """``CUDA_KERNEL_NODE_PARAMS_v2``."""

    _fields_ = [
        ("func", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("params", ctypes.POINTER(ctypes.c_void_p)),
        ("extra", ctypes.POINTER(ctypes.c_void_p)),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


class CudaGraph:
    """The work captured from a stream, which can be launched repeatedly.

    Args:
        stream: a PyCUDA stream; not the default one, which cannot be captured.
        queue: called once; what it queues on the stream becomes the graph and is not run.

    Raises:
        DeviceError: it queued something that a graph cannot hold.
    """

    def __init__(self, stream: Any, queue: Callable[[], None]) -> None:
        self._stream = ctypes.c_void_p(stream.handle)
        self._exec = ctypes.c_void_p()
        _destroyed_after(self, "cuGraphExecDestroy", self._exec)
        # Kept: its nodes are how those of what is launched are known.
        graph = ctypes.c_void_p()
        _destroyed_after(self, "cuGraphDestroy", graph)
        with releases.capture_under_way():
            # Relaxed: whatever another library gives back meanwhile, in any thread, is no failure.
            call("cuStreamBeginCapture_v2", self._stream, ctypes.c_int(RELAXED))
            try:
                queue()
            finally:
                # Also after a failure, or the stream stays in capture for good.
                status = library().cuStreamEndCapture(self._stream, ctypes.byref(graph))
        check("cuStreamEndCapture", status)
        flags = ctypes.c_ulonglong(0)
        call("cuGraphInstantiateWithFlags", ctypes.byref(self._exec), graph, flags)

    def launch(self, stream: int | None = None) -> None:
        """Queue all of it on its stream, or on another one; launches never overlap."""
        where = self._stream if stream is None else ctypes.c_void_p(stream)
        call("cuGraphLaunch", self._exec, where)

    @staticmethod
    def can_change() -> bool:
        """Return whether the driver is new enough for `set_arguments`."""
        return bool(address("cuGraphExecKernelNodeSetParams_v2"))

    def set_arguments(self, node: int, values: Sequence[int]) -> None:
        """Give a kernel other arguments in all launches from now on.

        Args:
            node: of the kernel, see `libcuda.last_node`.
            values: the bits of all arguments, in order.

        Raises:
            DeviceError: the driver refuses it.
        """
        where, params = ctypes.c_void_p(node), _NodeParams()
        call("cuGraphKernelNodeGetParams_v2", where, ctypes.byref(params))
        bits = (ctypes.c_uint64 * len(values))(*values)
        places = [
            ctypes.addressof(bits) + i * ctypes.sizeof(ctypes.c_uint64) for i in range(len(values))
        ]
        params.params = (ctypes.c_void_p * len(values))(*places)
        params.extra = None
        call("cuGraphExecKernelNodeSetParams_v2", self._exec, where, ctypes.byref(params))


def _destroyed_after(owner: object, function: str, handle: ctypes.c_void_p) -> None:
    """Call a function of the driver with a handle, if there is one, once its owner is gone."""
    destroy = partial(_destroy, function, handle)
    weakref.finalize(owner, releases.leave, current_context(), destroy)


def _destroy(function: str, handle: ctypes.c_void_p) -> None:
    if handle.value:
        call(function, handle)
