"""Functions on CUDA devices, as calls need them: on any stream, and within graphs."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial

from autotune.kernel.kernel import Kernel
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.call.callee import constant_rows, new_entry, slot_values, slots_of, zero_rows
from autotune.runtime.call.native import launcher
from autotune.runtime.compile.cubin import instance_symbols
from autotune.runtime.device import Device
from autotune.runtime.executable import Executable
from autotune.runtime.nvidia import libcuda
from autotune.runtime.nvidia.launches import as_launched, launch
from autotune.runtime.nvidia.modules import load_cubin
from autotune.runtime.nvidia.stream_resources import ResourcePool, StreamResources, close_when_free

# The functions of the driver that the C launcher calls, in its order.
_USED = (
    "cuCtxGetCurrent", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuLaunchKernel",
    "cuMemsetD8Async", "cuMemcpyDtoDAsync_v2", "cuStreamGetCaptureInfo_v2", "cuStreamGetId",
    "cuLaunchKernelEx",
)  # fmt: skip


class CudaCallee:
    """A cubin on one device.

    Args:
        kernel: what it was compiled from.
        open_kernel: the same before its sizes were put in.
        cubin: the machine code.
        device: where it runs.

    Raises:
        DeviceError: it does not run there.
    """

    def __init__(self, kernel: Kernel, open_kernel: Kernel, cubin: bytes, device: Device) -> None:
        self.device = device
        self._context = libcuda.primary_context(device.index)
        self.kernel = kernel = as_launched(kernel, device.index)
        names = instance_symbols(kernel, cubin)
        self._pool = ResourcePool(
            self._context,
            partial(load_cubin, cubin, kernel, names),
            tuple(w.bytes for w in kernel.workspace),
        )
        self._pool.load_first()
        close = weakref.finalize(self, close_when_free, self._pool)
        close.atexit = False  # then the driver may be gone already
        self._slots = slots_of(kernel)
        self._zero, self._constants = zero_rows(kernel), constant_rows(kernel)
        self._lock = threading.Lock()
        self.entry = new_entry(
            driven_launcher(),
            kernel,
            open_kernel,
            self._prepare,
            libcuda.check,
            device=(device.index, self._context),
        )

    def _prepare(self, key: int, stream: int, capture: int, graph: int) -> tuple[int, ...]:
        with self._lock:
            return self._pool.of(key, capture, graph, self._forget).values()

    def _forget(self, key: int, capture: int) -> bool:
        return self.entry is None or bool(self.entry.forget(key, capture))

    def is_capturing(self, stream: int) -> bool:
        """Return whether the stream records a graph."""
        with libcuda.entered(self._context):
            return libcuda.capture_of(stream)[0] != 0

    def wait(self, stream: int) -> None:
        """Wait for a stream."""
        with libcuda.entered(self._context):
            libcuda.synchronize(stream)

    def start(self, arrays: Sequence[NDArray], stream: int) -> None:
        """Queue one run on a stream.

        Raises:
            DeviceError: the driver refused.
        """
        values = slot_values(self.kernel, arrays)
        if self.entry is not None:
            self.entry.run(values, stream)
            return
        with libcuda.entered(self._context), self._lock:
            capture, graph = libcuda.capture_of(stream)
            key = stream if capture else libcuda.key_of(stream)
            resources = self._pool.of(key, capture, graph, self._forget)
            self._queue(resources, [*values, *resources.spaces], ctypes.c_void_p(stream))

    def _queue(
        self, resources: StreamResources, values: Sequence[int], stream: ctypes.c_void_p
    ) -> None:
        for where, (slot, size) in zip(resources.loaded.constants, self._constants, strict=True):
            ends = ctypes.c_uint64(where), ctypes.c_uint64(values[slot])
            libcuda.call("cuMemcpyDtoDAsync_v2", *ends, ctypes.c_size_t(size), stream)
        for slot, size in self._zero:
            start, byte = ctypes.c_uint64(values[slot]), ctypes.c_ubyte(0)
            libcuda.call("cuMemsetD8Async", start, byte, ctypes.c_size_t(size), stream)
        for function, one in zip(resources.loaded.functions, self.kernel.calls, strict=True):
            taken = [values[self._slots[name]] for name in one.args]
            launch(function, one.launch, taken, stream.value or 0)


@cache
def driven_launcher() -> object:
    """Return the C launcher after passing it the driver's functions; None if there is none."""
    found = launcher()
    if found is not None:
        found.set_driver(*map(libcuda.address, _USED))
    return found


def cuda_callee(
    kernel: Kernel,
    open_kernel: Kernel,
    artifact: bytes,
    device: Device,
    load: Callable[[], Executable],
) -> CudaCallee:
    """Load a cubin for calls.

    Raises:
        DeviceError: there is no such device, or it does not run the cubin.
    """
    device.require()
    return CudaCallee(kernel, open_kernel, artifact, device)
