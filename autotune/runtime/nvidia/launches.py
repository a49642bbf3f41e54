"""Launches of kernels through the driver itself."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from autotune.kernel.kernel import Kernel, Launch
from autotune.runtime.nvidia import libcuda

# CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, cuda.h.
_PROGRAMMATIC_STREAM_SERIALIZATION = 6
# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, and from which on there is programmatic dependent
# launch.
_CAPABILITY, _EARLY_CAPABILITY = 75, 9
_POINTER = ctypes.c_void_p


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``, whose value is a number."""

    _fields_ = [("id", ctypes.c_int), ("gap", ctypes.c_int), ("value", ctypes.c_int * 16)]


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", _POINTER),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    ]


def as_launched(kernel: Kernel, index: int) -> Kernel:
    """Return a kernel as device ``index`` can launch it: dependent launch only where supported."""
    if not any(one.launch.early for one in kernel.calls) or _begins_early(index):
        return kernel
    calls = [replace(one, launch=replace(one.launch, early=False)) for one in kernel.calls]
    return replace(kernel, calls=tuple(calls))


@cache
def _begins_early(index: int) -> bool:
    """Return whether a device, and its driver, can begin a kernel while another one runs."""
    device, major = ctypes.c_int(), ctypes.c_int()
    libcuda.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
    libcuda.call("cuDeviceGetAttribute", ctypes.byref(major), ctypes.c_int(_CAPABILITY), device)
    known = libcuda.address("cuLaunchKernelEx")
    return known != 0 and major.value >= _EARLY_CAPABILITY


def launch(function: int, how: Launch, values: Sequence[int], stream: int) -> None:
    """Queue a kernel on a stream.

    An early one overlaps with the end of a kernel that was queued just before; behind anything
    else (a copy, an event of another stream) the driver launches it as usual.

    Args:
        function: its handle.
        how: blocks, threads and dynamic shared memory, and whether it may be launched early
            (programmatic dependent launch).
        values: the bits of its arguments, in order.
        stream: its handle, 0 for the default one.

    Raises:
        DeviceError: the driver refused.
    """
    held = (ctypes.c_uint64 * len(values))(*values)
    size = ctypes.sizeof(ctypes.c_uint64)
    first = ctypes.addressof(held)
    params = (_POINTER * len(values))(*(first + i * size for i in range(len(values))))
    if not how.early:
        sizes = map(ctypes.c_uint, (*how.grid, *how.block, how.shared_bytes))
        libcuda.call("cuLaunchKernel", _POINTER(function), *sizes, _POINTER(stream), params, None)
        return
    beside = _Attribute(id=_PROGRAMMATIC_STREAM_SERIALIZATION)
    beside.value[0] = 1
    three = ctypes.c_uint * 3
    config = _Config(
        three(*how.grid), three(*how.block), how.shared_bytes, stream, ctypes.pointer(beside), 1
    )
    libcuda.call("cuLaunchKernelEx", ctypes.byref(config), _POINTER(function), params, None)
