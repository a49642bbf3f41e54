"""From an artifact to something that runs: which file suits which device is known here only."""

from __future__ import annotations

import os
from collections.abc import Callable

from autotune.emulator import emulated
from autotune.errors import DeviceError, KernelError
from autotune.kernel import Kernel
from autotune.runtime.device import Device, DeviceKind, device
from autotune.runtime.executable import Executable
from autotune.runtime.host.executable import CpuExecutable
from autotune.runtime.nvidia.executable import CudaExecutable
from autotune.target import Target
from autotune.utils.check import Check


def _emulated(artifact: str, kernel: Kernel, where: Device) -> Executable:
    # The library has the entry points that the emulator gave it.
    return CpuExecutable(artifact, emulated(kernel), where)


# By suffix, language of the kernel, and kind of the device.
_LOADERS: dict[tuple[str, str, DeviceKind], Callable[[str, Kernel, Device], Executable]] = {
    (".so", "c", "cpu"): CpuExecutable,
    (".so", "cuda", "cpu"): _emulated,
    (".cubin", "cuda", "cuda"): CudaExecutable,
}


def load(
    artifact: str | os.PathLike[str], kernel: Kernel, where: Target | Device | str
) -> Executable:
    """Load what `compile_kernel` made.

    Args:
        artifact: its path.
        kernel: what it was compiled from.
        where: the device, or a target whose first device is meant.

    Raises:
        KernelError: an argument is of another kind.
        DeviceError: there is no such device, or it cannot run this file.
    """
    check = Check(KernelError, "load")
    check.path("artifact", artifact)
    check.kind("kernel", kernel, Kernel, "the Kernel that it was compiled from")
    chosen = where if isinstance(where, Device) else device(where)
    suffix = os.path.splitext(artifact)[1]
    loader = _LOADERS.get((suffix, kernel.language, chosen.kind))
    if loader is None:
        raise DeviceError(f"kernel {kernel.name!r}: a {suffix!r} file does not run on {chosen}")
    return loader(os.fspath(artifact), kernel, chosen)
