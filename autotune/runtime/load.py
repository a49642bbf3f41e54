"""From an artifact to something that runs: which file suits which device is known here only."""

from __future__ import annotations

import os
from collections.abc import Callable

from autotune.errors import DeviceError, KernelError
from autotune.kernel.kernel import Kernel
from autotune.runtime.device import Device, device
from autotune.runtime.executable import Executable
from autotune.target import Target
from autotune.target.backends import BACKENDS, part
from autotune.utils.check import Check

Loader = Callable[[str, Kernel, Device], Executable]


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
    for each in BACKENDS:
        if (each.suffix, each.language, each.device) == (suffix, kernel.language, chosen.kind):
            loader: Loader = part(each.loader)
            return loader(os.fspath(artifact), kernel, chosen)
    raise DeviceError(f"kernel {kernel.name!r}: a {suffix!r} file does not run on {chosen}")
