"""CUDA's driver by its own C interface: modules and launches, graphs, streams of others.

Functions act on the context that is current.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

from autotune.errors import DeviceError

# CU_STREAM_CAPTURE_MODE_RELAXED: what is unsafe in a capture is allowed, such as to allocate.
RELAXED = 2
# CU_STREAM_CAPTURE_STATUS_NONE, _ACTIVE; a third is a capture that failed, and has not ended.
_NONE, _ACTIVE = 0, 1
# CUresult: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED to CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD.
_CAPTURE_ERRORS = range(900, 909)
_POINTER = ctypes.c_void_p
# The driver's words for a context that a kernel has broken: CUDA_ERROR_ILLEGAL_ADDRESS, _ASSERT,
# _HARDWARE_STACK_ERROR to _LAUNCH_FAILED. Every later call in it fails with the same words.
_BREAKING = (
    "an illegal memory access was encountered",
    "device-side assert triggered",
    "hardware stack error",
    "an illegal instruction was encountered",
    "misaligned address",
    "operation not supported on global/shared address space",
    "invalid program counter",
    "unspecified launch failure",
)
_NOT_INITIALISED = "initialization error"
_broken_by: set[str] = set()


class CaptureError(DeviceError):
    """The driver refused something because a stream is captured."""


@cache
def library() -> ctypes.CDLL:
    """Return the driver's library.

    Raises:
        DeviceError: it is not installed.
    """
    _first_process()
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError(f"the driver of NVIDIA devices cannot be loaded: {error}") from error


@cache
def _first_process() -> int:
    """Return the process that loaded the driver: this one, or the one that it was forked from."""
    return os.getpid()


def advice(words: str) -> str:
    """Return what the words of an error of the driver leave out, to be put behind them.

    A context is broken for good by a faulty kernel; the first error says what happened, and those
    that follow would say that it happened again. CUDA works on neither side of a fork that comes
    after its first use but the parent's.
    """
    if words.endswith(_NOT_INITIALISED) and os.getpid() != _first_process():
        return (
            "; a process that is forked after CUDA was used cannot use it: start it by "
            'multiprocessing.get_context("spawn")'
        )
    if words.startswith("no kernel image"):
        return "; the target names another architecture: leave -arch out for that of the device"
    for breaking in filter(words.endswith, _BREAKING):
        if breaking in _broken_by:
            return " earlier, and this process cannot use the GPU any more: start another"
        _broken_by.add(breaking)
        return '; the target "cuda -emulate" tells in which thread and line, at small sizes'
    return ""


def call(name: str, *args: object) -> None:
    """Call a function of the driver.

    Raises:
        DeviceError: it failed; the message has the driver's words.
    """
    check(name, getattr(library(), name)(*args))


def check(name: str, status: int) -> None:
    """Raise what a function of the driver answered if it is an error."""
    if status == 0:
        return
    text = ctypes.c_char_p()
    library().cuGetErrorString(ctypes.c_int(status), ctypes.byref(text))
    words = (text.value or b"unknown error").decode()
    kind = CaptureError if status in _CAPTURE_ERRORS else DeviceError
    raise kind(f"{name} failed: {words}{advice(words)}")


def address(name: str) -> int:
    """Return where a function of the driver is; 0 where it is too old to have it."""
    function = getattr(library(), name, None)
    return 0 if function is None else ctypes.cast(function, _POINTER).value or 0


@cache
def primary_context(index: int) -> int:
    """Return the context of a device that all libraries share; it is kept for good.

    Raises:
        DeviceError: there is no such device.
    """
    device, context = ctypes.c_int(), _POINTER()
    call("cuInit", ctypes.c_uint(0))
    call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    return context.value or 0


@contextlib.contextmanager
def entered(context: int) -> Iterator[None]:
    """Make a context current, and let this thread allocate and free while a graph is captured."""
    mode, before = ctypes.c_int(RELAXED), _POINTER()
    call("cuCtxPushCurrent_v2", _POINTER(context))
    try:
        call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
    finally:
        library().cuCtxPopCurrent_v2(ctypes.byref(before))


def current_context() -> int:
    """Return the context that is current; 0 if there is none."""
    context = _POINTER()
    call("cuCtxGetCurrent", ctypes.byref(context))
    return context.value or 0


def is_captured(stream: int) -> bool:
    """Return whether a stream is captured; for stream 0, whether any stream that it waits for is.

    The query does not invalidate a capture. Without a driver, or if it has no such function, the
    answer is False.
    """
    status = ctypes.c_int()
    try:
        answer = library().cuStreamIsCapturing(_POINTER(stream), ctypes.byref(status))
    except DeviceError:
        return False
    return answer in _CAPTURE_ERRORS or (answer == 0 and status.value != _NONE)


def capture_of(stream: int) -> tuple[int, int]:
    """Return number and graph of the capture that a stream is in; zeros if it is in none."""
    status, number, graph = ctypes.c_int(), ctypes.c_uint64(), _POINTER()
    outs = (ctypes.byref(status), ctypes.byref(number), ctypes.byref(graph))
    call("cuStreamGetCaptureInfo_v2", _POINTER(stream), *outs, None, None)
    return (number.value, graph.value or 0) if status.value == _ACTIVE else (0, 0)


def open_capture(stream: int) -> tuple[int, Any, ctypes.c_size_t]:
    """Return the graph that a stream is captured into, and behind which nodes the next one comes.

    Raises:
        DeviceError: it is in no capture.
    """
    status, number, graph = ctypes.c_int(), ctypes.c_uint64(), _POINTER()
    nodes, count = ctypes.POINTER(_POINTER)(), ctypes.c_size_t()
    outs = (status, number, graph, nodes, count)
    call("cuStreamGetCaptureInfo_v2", _POINTER(stream), *map(ctypes.byref, outs))
    if status.value != _ACTIVE:
        raise DeviceError("expected a stream that is captured, this is not")
    return graph.value or 0, nodes, count


def last_node(stream: int) -> int:
    """Return the node that was queued last on a stream that is captured.

    Raises:
        DeviceError: it is in no capture, or several nodes are the last.
    """
    _, nodes, count = open_capture(stream)
    if count.value != 1:
        raise DeviceError(f"a captured stream must end with one node, this has {count.value}")
    return nodes[0] or 0


def key_of(stream: int) -> int:
    """Return what tells a stream from all others, and from later ones with the same handle.

    To ask while the stream is captured ends the capture.
    """
    if not address("cuStreamGetId"):
        return stream
    number = ctypes.c_uint64()
    call("cuStreamGetId", _POINTER(stream), ctypes.byref(number))
    return number.value


def synchronize(stream: int) -> None:
    """Wait for a stream."""
    call("cuStreamSynchronize", _POINTER(stream))


def allocate(size: int) -> int:
    """Return the address of new memory, aligned to at least 256 bytes."""
    where = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(where), ctypes.c_size_t(max(1, size)))
    return where.value
