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
    open_capture,
)

# CU_STREAM_SET_CAPTURE_DEPENDENCIES.
_SET_DEPENDENCIES = 1


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
        self._graph = graph = ctypes.c_void_p()
        _destroyed_after(self, "cuGraphDestroy", graph)
        # Of nodes that were changed: their parameters, and the bits of the arguments in them.
        self._changed: dict[int, tuple[_NodeParams, ctypes.Array[ctypes.c_uint64]]] = {}
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
        if node not in self._changed:
            self._changed[node] = _params_of(node, len(values))
        params, bits = self._changed[node]
        bits[:] = list(values)
        where = ctypes.c_void_p(node)
        call("cuGraphExecKernelNodeSetParams_v2", self._exec, where, ctypes.byref(params))

    def add_to_capture(self, stream: int) -> int:
        """Add all of it to what another stream is captured into, behind what is there.

        Arguments are those that it was captured with.

        Returns:
            The graph of that capture.

        Raises:
            DeviceError: the stream is not captured.
        """
        graph, nodes, count = open_capture(stream)
        node, one = ctypes.c_void_p(), ctypes.c_size_t(1)
        here = ctypes.c_void_p(graph)
        call("cuGraphAddChildGraphNode", ctypes.byref(node), here, nodes, count, self._graph)
        flags = ctypes.c_uint(_SET_DEPENDENCIES)
        where = ctypes.c_void_p(stream)
        call("cuStreamUpdateCaptureDependencies", where, ctypes.byref(node), one, flags)
        return graph


def _params_of(node: int, count: int) -> tuple[_NodeParams, ctypes.Array[ctypes.c_uint64]]:
    """Return the parameters of a kernel, with memory for the bits of so many arguments."""
    params, bits = _NodeParams(), (ctypes.c_uint64 * count)()
    call("cuGraphKernelNodeGetParams_v2", ctypes.c_void_p(node), ctypes.byref(params))
    size = ctypes.sizeof(ctypes.c_uint64)
    places = [ctypes.addressof(bits) + i * size for i in range(count)]
    params.params = (ctypes.c_void_p * count)(*places)
    params.extra = None
    return params, bits


def _destroyed_after(owner: object, function: str, handle: ctypes.c_void_p) -> None:
    """Call a function of the driver with a handle, if there is one, once its owner is gone."""
    destroy = partial(_destroy, function, handle)
    weakref.finalize(owner, releases.leave, current_context(), destroy)


def _destroy(function: str, handle: ctypes.c_void_p) -> None:
    if handle.value:
        call(function, handle)
