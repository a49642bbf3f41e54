"""The CUDA stream on which a call is launched.

In this order: the one that is asked for; the current one of the library that a tensor belongs to;
if all arrays are autotune's, that of torch if it is loaded, that of CuPy, or the default stream.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from autotune.errors import KernelError
from autotune.utils.check import Check

# Where libraries keep the handle of a stream: torch, CuPy, PyCUDA.
_HANDLES = ("cuda_stream", "ptr", "handle")


def stream_handle(given: object, index: int) -> int:
    """Return the handle of a stream on device ``index``; of the current one if None is given.

    Raises:
        KernelError: the value is not a stream, or is a stream of another device.
    """
    if given is None:
        return _current(index)
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    device = getattr(getattr(given, "device", None), "index", None)
    if isinstance(device, int) and device != index:
        raise KernelError(
            f"stream: the arrays are on cuda:{index}, the stream is on cuda:{device}"
        )
    if hasattr(given, "__cuda_stream__"):
        return int(given.__cuda_stream__()[1])
    for name in _HANDLES:
        handle = getattr(given, name, None)
        if isinstance(handle, int):
            return handle
    expected = "a stream of torch, CuPy or PyCUDA, its handle, or None"
    return Check(KernelError, "call").refuse("stream", expected, given)


def stream_of_call(values: Sequence[object], given: object, index: int) -> int:
    """Return the handle of the stream for a call with these arguments."""
    if given is None:
        for value in values:
            library = type(value).__module__.partition(".")[0]
            if library in _CURRENT and library in sys.modules:
                return _CURRENT[library](sys.modules[library], index)
    return stream_handle(given, index)


def _current(index: int) -> int:
    for library, ask in _CURRENT.items():
        if library in sys.modules:
            return ask(sys.modules[library], index)
    return 0


def current_streams() -> list[int]:
    """Return the current streams of the libraries that are loaded, each on its current device."""
    return [ask(sys.modules[name], None) for name, ask in _CURRENT.items() if name in sys.modules]


def _of_torch(torch: object, index: int | None) -> int:
    cuda = getattr(torch, "cuda", None)  # missing while another thread imports torch
    if cuda is None or not cuda.is_initialized():
        return 0
    return int(cuda.current_stream(index).cuda_stream)


def _of_cupy(cupy: Any, index: int | None) -> int:
    with cupy.cuda.Device(index):
        return int(cupy.cuda.get_current_stream().ptr)


_CURRENT = {"torch": _of_torch, "cupy": _of_cupy}
