"""Cubins loaded through the driver itself: their functions, ready to launch."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from autotune.errors import DeviceError
from autotune.kernel.kernel import Kernel, KernelCall
from autotune.runtime.nvidia.libcuda import call

# CUfunction_attribute, cuda.h.
_MAX_THREADS, _STATIC_SHARED, _REGISTERS, _MAX_DYNAMIC_SHARED, _CARVEOUT = 0, 1, 4, 8, 9
# CU_SHAREDMEM_CARVEOUT_MAX_SHARED, cuda.h.
_MAX_CARVEOUT = 100
# Static and dynamic shared memory of a block that needs no permission.
FREE_SHARED_BYTES = 48 * 1024
_POINTER = ctypes.c_void_p


@dataclass(frozen=True)
class Loaded:
    """A cubin in a context.

    Attributes:
        handle: of the module.
        functions: handles, one for each call of the kernel.
        constants: addresses of the variables of its constants.
    """

    handle: int
    functions: tuple[int, ...]
    constants: tuple[int, ...]

    def unload(self) -> None:
        """Give it back; nothing of it may run any more."""
        call("cuModuleUnload", _POINTER(self.handle))


def load_cubin(cubin: bytes, kernel: Kernel, symbols: Mapping[str, str]) -> Loaded:
    """Load a cubin into the context that is current.

    Args:
        cubin: the machine code.
        kernel: what it was compiled from.
        symbols: names of entries that have others in the machine code.

    Raises:
        DeviceError: it is for another architecture, or a launch does not fit the device.
    """
    module = _POINTER()
    call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(cubin))
    handle = module.value or 0
    try:
        functions = tuple(
            _function(handle, one, symbols.get(one.entry, one.entry)) for one in kernel.calls
        )
        _share_carveouts(functions, kernel.calls)
        constants = tuple(_variable(handle, one.name) for one in kernel.constants)
    except DeviceError:
        call("cuModuleUnload", module)
        raise
    return Loaded(handle, functions, constants)


def _function(module: int, one: KernelCall, symbol: str) -> int:
    function = _POINTER()
    name = ctypes.c_char_p(symbol.encode())
    call("cuModuleGetFunction", ctypes.byref(function), _POINTER(module), name)
    dynamic = one.launch.shared_bytes
    if dynamic and _attribute(function, _STATIC_SHARED) + dynamic > FREE_SHARED_BYTES:
        wanted = ctypes.c_int(dynamic)
        call("cuFuncSetAttribute", function, ctypes.c_int(_MAX_DYNAMIC_SHARED), wanted)
    most = _attribute(function, _MAX_THREADS)
    if one.launch.threads > most:
        raise DeviceError(
            f"{one.entry}: a block of {one.launch.threads} threads does not fit: with "
            f"{_attribute(function, _REGISTERS)} registers a thread the device takes {most}"
        )
    return function.value or 0


def _share_carveouts(functions: Sequence[int], calls: Sequence[KernelCall]) -> None:
    """Have kernels that run at one time split L1 cache and shared memory alike.

    A multiprocessor changes that split when it is idle, so a kernel of much shared memory that is
    launched early would wait for the kernel before it after all. Kernels behind the second keep
    what the driver chooses.
    """
    for i, (one, following) in enumerate(pairwise(calls)):
        large = following.launch.shared_bytes > FREE_SHARED_BYTES
        if following.launch.early and large and (i == 0 or not one.launch.early):
            for function in functions[i : i + 2]:
                carveout = ctypes.c_int(_CARVEOUT), ctypes.c_int(_MAX_CARVEOUT)
                call("cuFuncSetAttribute", _POINTER(function), *carveout)


def _attribute(function: ctypes.c_void_p, number: int) -> int:
    value = ctypes.c_int()
    call("cuFuncGetAttribute", ctypes.byref(value), ctypes.c_int(number), function)
    return value.value


def _variable(module: int, name: str) -> int:
    where, size = ctypes.c_uint64(), ctypes.c_size_t()
    outs = (ctypes.byref(where), ctypes.byref(size))
    call("cuModuleGetGlobal_v2", *outs, _POINTER(module), ctypes.c_char_p(name.encode()))
    return where.value
