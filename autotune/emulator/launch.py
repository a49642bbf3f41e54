"""Running emulated kernels on numpy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.codegen.packed import filler_name, packed_name
from autotune.emulator.build import compile_emulated, emulated
from autotune.emulator.guard import GuardedBuffer
from autotune.emulator.stop import LIMIT_S
from autotune.errors import DeviceError, KernelError
from autotune.kernel.kernel import Kernel
from autotune.utils.libraries import load_library
from autotune.utils.scratch import temporary_folder

Array = npt.NDArray[np.generic]


class EmulatedKernel:
    """A kernel of a library made by `compile_emulated`, loaded and ready to run.

    Args:
        library: path of the library.
        kernel: the CUDA kernel that it was compiled from.
    """

    def __init__(self, library: Path, kernel: Kernel) -> None:
        self.kernel = kernel
        self.calls = emulated(kernel).calls
        self._library = load_library(str(library), f"kernel {kernel.name!r}")
        self._library.autotune_fault.restype = ctypes.c_char_p

    def run(
        self,
        arrays: Sequence[Array],
        order: int = 0,
        checked: bool = True,
        limit_s: float = LIMIT_S,
    ) -> None:
        """Run on numpy arrays, one for each argument in order; outputs are written in place.

        Args:
            arrays: of the size of the arguments.
            order: in which threads and blocks take turns; see `emulated`.
            checked: report races and accesses out of bounds, if the library was compiled so.
            limit_s: seconds of processor time that threads may take until the next one of them
                exits; a kernel that takes more is ended, with a report of where its threads are.

        Raises:
            KernelError: an array does not fit its argument.
            DeviceError: the kernel went wrong; the message says where and how.
        """
        self._check_arrays(arrays)
        buffers: dict[str, GuardedBuffer] = {}
        for argument, array in zip(self.kernel.args, arrays, strict=True):
            buffers[argument.name] = GuardedBuffer(argument.bytes)
            if argument.role != "out":
                buffers[argument.name].write(array)
        for space in self.kernel.workspace:
            buffers[space.name] = GuardedBuffer(space.bytes, 0 if space.zero else 0xFF)
        if constants := [buffers[a.name].address for a in self.kernel.constants]:
            self._library[filler_name(self.kernel)](_pack(constants))
        self._library.autotune_emulation(order, int(checked))
        self._library.autotune_emulation_limit(ctypes.c_double(limit_s))
        for one in self.calls:
            addresses = [buffers[name].address for name in one.args]
            self._library[packed_name(one.entry)](_pack(addresses))
            fault = self._library.autotune_fault()
            if fault:
                text = fault.decode("utf-8", "replace")
                raise DeviceError(f"kernel {self.kernel.name!r}, entry {one.entry!r}: {text}")
        for argument, array in zip(self.kernel.args, arrays, strict=True):
            if argument.role != "in":
                buffers[argument.name].read_into(array)

    def _check_arrays(self, arrays: Sequence[Array]) -> None:
        args = self.kernel.args
        if len(arrays) != len(args):
            raise KernelError(
                f"kernel {self.kernel.name!r} takes {len(args)} arrays "
                f"({', '.join(a.name for a in args)}), got {len(arrays)}"
            )
        for argument, array in zip(args, arrays, strict=True):
            if array.nbytes != argument.bytes:
                raise KernelError(
                    f"kernel {self.kernel.name!r}: argument {argument.name!r} is "
                    f"{argument.dtype}{list(argument.shape)}, got {array.dtype}{list(array.shape)}"
                )


def _pack(addresses: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(addresses))(*addresses)


def run_emulated(
    kernel: Kernel,
    arrays: Sequence[Array],
    orders: Sequence[int] = (0, 1, 2),
    limit_s: float = LIMIT_S,
) -> None:
    """Compile a CUDA kernel for the CPU and run it on numpy arrays, writing outputs in place.

    It runs once for each order of threads (see `emulated`), and all results must agree: to the
    last bit, or nearly where there are atomic additions, which round in the order they come.
    One that never ends is ended, see `EmulatedKernel.run`.

    Raises:
        CompileError: the C++ compiler refused the text.
        DeviceError: the kernel went wrong, or its result depends on the order of its threads.
    """
    with temporary_folder("emulated") as folder:
        loaded = EmulatedKernel(compile_emulated(kernel, Path(folder, "kernel.so")), kernel)
        before = [np.array(array) for array in arrays]
        loaded.run(arrays, orders[0], limit_s=limit_s)
        for order in orders[1:]:
            again = [np.array(array) for array in before]
            loaded.run(again, order, limit_s=limit_s)
            _check_outputs(kernel, arrays, again, order)


def _check_outputs(
    kernel: Kernel, arrays: Sequence[Array], again: Sequence[Array], order: int
) -> None:
    for argument, first, second in zip(kernel.args, arrays, again, strict=True):
        if argument.role != "in":
            _check_same(kernel, argument.name, first, second, order)


def _check_same(kernel: Kernel, name: str, first: Array, again: Array, order: int) -> None:
    if first.tobytes() == again.tobytes():
        return
    a, b = first.astype(np.float64), again.astype(np.float64)
    if "atomic" in kernel.source and np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True):
        return
    differ = np.flatnonzero(~((a == b) | (np.isnan(a) & np.isnan(b))))
    where = f"{len(differ)} elements differ in order {order}, the first at {differ[:1].tolist()}"
    raise DeviceError(
        f"kernel {kernel.name!r}: argument {name!r} depends on the order of threads: {where}; "
        "a barrier is missing, or two blocks write one element"
    )
