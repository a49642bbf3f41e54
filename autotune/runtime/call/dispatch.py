"""From a call of a function to the loaded kernel that it means."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from autotune.errors import KernelError
from autotune.kernel.kernel import Kernel, Scalar
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.arrays.bind import bind
from autotune.runtime.arrays.sizes import with_sizes
from autotune.runtime.call.callee import Callee
from autotune.runtime.call.native import launcher
from autotune.runtime.call.overlap import require_apart, require_results_apart
from autotune.runtime.call.streams import stream_of_call
from autotune.runtime.device import Device
from autotune.runtime.executable import Executable
from autotune.target import Target
from autotune.target.backends import part
from autotune.utils.check import Check

# Kernels of other sizes, or on other devices, that stay loaded.
_MOST_LOADED = 8
_CUDA = 2


class CallDispatch:
    """Calls one function.

    The C launcher has an `entry` for each combination of shapes, dtypes and device that was called
    before, and needs no Python for them. All else comes to `call_by_python`: first calls, arrays
    that must be copied, numbers of other libraries, and mistakes, which it names.

    Args:
        kernel: the function; sizes may be open.
        target: what it was built for.
        device: where it runs unless arrays are on another device of that kind.
        artifact_of: gives the machine code of a kernel whose sizes are put in.
        load: loads a kernel on the host.

    Attributes:
        call: takes the arguments and ``stream=``.
    """

    def __init__(
        self,
        kernel: Kernel,
        target: Target,
        device: Device,
        artifact_of: Callable[[Kernel], bytes],
        load: Callable[[Kernel], Executable],
    ) -> None:
        self._kernel = kernel
        self._target = target
        self._device = device
        self._artifact_of = artifact_of
        self._load = load
        self._lock = threading.RLock()
        self._callees: dict[tuple[object, ...], Callee] = {}
        self._entries: list[object] = []
        native = None if target.emulate else launcher()
        self.call: Callable[..., None] = (
            self.call_by_python
            if native is None
            else native.Caller(self.call_by_python, self._entries)
        )

    def call_by_python(self, *args: object, stream: object = None) -> None:
        """Run once on these arrays; wait if one of them had to be copied.

        Raises:
            KernelError: they do not fit the arguments, or what is written overlaps another one.
            DeviceError: the kernel failed.
        """
        kernel, values = with_sizes(self._kernel, args)
        device = self._device_of(values)
        handle = self._stream(values, stream, device)
        callee = self._callee(kernel, device)
        capturing = callee.is_capturing(handle)
        bound = bind(kernel, values, device, handle, may_copy=not capturing)
        require_apart(kernel, bound.arrays)
        if bound.copied:
            require_results_apart(kernel, values)
        callee.start(bound.arrays, handle)
        if bound.copied:
            callee.wait(handle)
        bound.finish()

    def _stream(self, values: Sequence[object], stream: object, device: Device) -> int:
        if device.device_type == _CUDA:
            return stream_of_call(values, stream, device.index)
        if stream is not None:
            check = Check(KernelError, self._kernel.name)
            check.refuse("stream", f"None: {device} has no streams", stream)
        return 0

    def _device_of(self, values: Sequence[object]) -> Device:
        """Return the device that the arrays are on, where the function is for it."""
        if self._device.device_type != _CUDA:
            return self._device
        for value in values:
            if isinstance(value, NDArray):
                if value.device.device_type == _CUDA:
                    return value.device
            elif hasattr(value, "__dlpack_device__"):
                kind, index = value.__dlpack_device__()
                if kind == _CUDA:
                    return Device("cuda", int(index))
        return self._device

    def _callee(self, kernel: Kernel, device: Device) -> Callee:
        """Return the loaded kernel; the C launcher finds it by itself from now on."""
        shapes = tuple(a.value if isinstance(a, Scalar) else a.shape for a in kernel.args)
        with self._lock:
            found = self._callees.pop((device, shapes), None)
            if found is None:
                found = self._loaded(kernel, device)
                if found.entry is not None:
                    self._entries.insert(0, found.entry)
            self._callees[device, shapes] = found
            return found

    def _loaded(self, kernel: Kernel, device: Device) -> Callee:
        make: Callable[..., Callee] = part(self._target.backend.callee)
        artifact = self._artifact_of(kernel)
        new = make(kernel, self._kernel, artifact, device, lambda: self._load(kernel))
        while len(self._callees) >= _MOST_LOADED:
            oldest = self._callees.pop(next(iter(self._callees)))
            if oldest.entry is not None:
                self._entries.remove(oldest.entry)
        return new
