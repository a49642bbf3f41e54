"""What a device can really do: its memory bandwidth and arithmetic rates, measured once.

Datasheets give rates that no kernel reaches. Here small kernels of ours, which do nothing but copy
or multiply and add, are timed on the device itself; the results are kept on disk by device and
driver. A kernel's floor is then the larger of its bytes over the bandwidth and its operations
over the rate, and its percentage of the ceiling is that floor over the time it takes.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from autotune.errors import CompileError, KernelError
from autotune.kernel import Kernel
from autotune.runtime import roofline_kernels
from autotune.runtime.compile import compile_kernel
from autotune.runtime.cuda_driver import driver_version
from autotune.runtime.device import Device
from autotune.runtime.load import load
from autotune.runtime.timing import TimeOptions
from autotune.runtime.toolchain import host_cpu
from autotune.target import Target
from autotune.utils import environment
from autotune.utils.files import write_atomically

_OPTIONS = TimeOptions(number=2, repeat=7, min_repeat_ms=5, input_sets=1, use_graph=False)
_VERSION = 1


@dataclass(frozen=True)
class Ceilings:
    """The rates of one device.

    Attributes:
        device: its name, with the driver or the number of threads they were measured with.
        bytes_per_s: memory bandwidth of a copy, reads and writes counted.
        flops: operations per second by element type; a multiply-add counts two. On CUDA devices
            16-bit types are those of the matrix units as ``mma`` reaches them; a kernel that uses
            a wider instruction may pass 100%.
    """

    device: str
    bytes_per_s: float
    flops: dict[str, float]

    def floor_s(self, flop: float, moved_bytes: float, dtype: str = "float32") -> float:
        """Return the least seconds for so much arithmetic and memory traffic.

        Raises:
            KernelError: there is arithmetic, and its rate is not known for ``dtype``.
        """
        if flop and dtype not in self.flops:
            raise KernelError(
                f"{self.device}: no rate is known for {dtype}; known are {', '.join(self.flops)}"
            )
        arithmetic = flop / self.flops[dtype] if flop else 0.0
        return max(arithmetic, moved_bytes / self.bytes_per_s)


def percent_of_ceiling(
    ceilings: Ceilings, flop: float, moved_bytes: float, seconds: float, dtype: str = "float32"
) -> float:
    """Return how near a kernel comes to what its device can do, in percent.

    Args:
        ceilings: of the device it ran on.
        flop: operations it must do; 0 when not declared.
        moved_bytes: bytes it must move through memory; 0 when not declared.
        seconds: what it took.
        dtype: of the arithmetic.
    """
    return 100.0 * ceilings.floor_s(flop, moved_bytes, dtype) / seconds


def ceilings_of(device: Device) -> Ceilings:
    """Return the ceilings of a device: from disk, or measured now, which takes a few seconds.

    Raises:
        DeviceError: there is no such device.
        CompilerMissing: it cannot be measured without a compiler.
    """
    name = _identity(device)
    digest = hashlib.sha256(f"{_VERSION} {name}".encode()).hexdigest()[:24]
    path = environment.cache_dir() / "ceilings" / f"{digest}.json"
    try:
        return Ceilings(**json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        measured = _measure(device, name)
    write_atomically(path, json.dumps(asdict(measured)).encode(), missing_ok=True)
    return measured


def _identity(device: Device) -> str:
    if device.kind == "cpu":
        return f"cpu {host_cpu()} {device.multi_processor_count} threads"
    return f"{device.device_name} driver {driver_version()}"


def _measure(device: Device, name: str) -> Ceilings:
    if device.kind == "cpu":
        kernels = roofline_kernels.for_cpu(device.multi_processor_count)
        target = Target("c")
    else:
        kernels = roofline_kernels.for_cuda(device.multi_processor_count)
        target = Target(f"cuda -arch=sm_{device.compute_version.replace('.', '')}")
    flops = {}
    for dtype, (kernel, count) in kernels.arithmetic.items():
        try:
            flops[dtype] = count / _least_s(kernel, target, device)
        except CompileError:
            # This architecture has no such instruction; the type has no rate then.
            continue
    copy_s = _least_s(kernels.copy, target, device)
    return Ceilings(name, sum(a.bytes for a in kernels.copy.args) / copy_s, flops)


def _least_s(kernel: Kernel, target: Target, device: Device) -> float:
    """Return the least time of a kernel; noise only ever adds."""
    with tempfile.TemporaryDirectory(prefix="autotune-roofline-") as folder:
        output = compile_kernel(kernel, target, timeout_s=300, out_dir=Path(folder))
        with load(output.artifact, kernel, device) as executable:
            buffers = executable.allocate(_ones(kernel))
            return min(executable.time(buffers, _OPTIONS).samples_s)


def _ones(kernel: Kernel) -> Sequence[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    return [np.ones(a.shape, np.float32) for a in kernel.inputs]
