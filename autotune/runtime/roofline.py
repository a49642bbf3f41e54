"""The measured roofline of a device: its memory bandwidth and arithmetic rates.

Datasheets give rates that no kernel reaches. Here small kernels that only move data, or only
multiply and add, are timed on the device itself; the results are kept on disk by device and
driver. The least time of a kernel is the larger of its bytes over the bandwidth and its operations
over the rate; its share of the roofline is this time over the time that it takes.

A kernel that runs repeatedly on data that a cache holds is bound by that cache, not by memory; so
the bandwidth is measured for working sets of many sizes.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from autotune.errors import CompileError, KernelError
from autotune.kernel.kernel import Kernel
from autotune.runtime.arrays.buffers import Buffers
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.runtime.compile.toolchain import host_cpu
from autotune.runtime.device import Device
from autotune.runtime.executable import Executable
from autotune.runtime.load import load
from autotune.runtime.roofline_kernels import RooflineKernels
from autotune.runtime.timing import TimeOptions
from autotune.target import Target
from autotune.target.backends import part
from autotune.utils import environment
from autotune.utils.files import read_own, write_atomically
from autotune.utils.plain_data import mapping, number, row, text
from autotune.utils.scratch import temporary_folder

# Short samples, of which the least counts: some fall between what else the machine does. More are
# taken until so many come so near the least that it was no luck, and clocks had time to rise.
_OPTIONS = TimeOptions(number=1, repeat=5, min_repeat_ms=1, input_sets=1)
_MOST_ROUNDS = 5
_AGREEING, _WITHIN = 3, 1.02
_LEAST_S = 0.02
_VERSION = 2


@dataclass(frozen=True)
class Ceilings:
    """The rates of one device.

    Attributes:
        device: its name, with the driver or the number of threads of the measurement.
        bandwidths: pairs of a size in bytes and a rate in bytes per second (reads and writes
            counted): the highest rate of reading or copying for working sets of at least this
            size. Sizes increase, rates never do.
        flops: operations per second by element type; a multiply-add counts as two. On CUDA devices
            the rates of 16-bit types are those of ``mma`` on tensor cores; a kernel with a wider
            instruction may exceed 100%.
    """

    device: str
    bandwidths: tuple[tuple[int, float], ...]
    flops: dict[str, float]

    @classmethod
    def from_json(cls, given: object) -> Ceilings:
        """Return what `asdict` made data of, even if it went through a file.

        Raises:
            ValueError, TypeError, KeyError: it is something else.
        """
        data = mapping(given)
        sizes = [row(pair) for pair in row(data["bandwidths"])]
        pairs = tuple((int(number(size)), number(rate)) for size, rate in sizes)
        flops = {dtype: number(rate) for dtype, rate in mapping(data["flops"]).items()}
        rates = [rate for _, rate in pairs] + list(flops.values())
        if not (pairs and flops and all(0 < rate < math.inf for rate in rates)):
            raise ValueError(f"these are no rates of a device: {data}")
        return cls(text(data["device"]), pairs, flops)

    @property
    def bytes_per_s(self) -> float:
        """Bandwidth of the memory, behind all caches."""
        return self.bandwidth()

    def bandwidth(self, working_set: float = math.inf) -> float:
        """Return the highest rate in bytes per second for a working set.

        Args:
            working_set: bytes that are accessed before the first is accessed again; infinite if
                every run finds cold caches.
        """
        # Of two sizes the smaller counts: a size between them may just fit the cache.
        fitting = [rate for size, rate in self.bandwidths if size <= working_set]
        return fitting[-1] if fitting else self.bandwidths[0][1]

    def or_higher(self, other: Ceilings) -> Ceilings:
        """Return the higher of two measurements of each rate: whatever disturbs one lowers it."""
        rates = dict(self.bandwidths)
        for size, rate in other.bandwidths:
            rates[size] = max(rate, rates.get(size, 0.0))
        flops = dict(other.flops)
        for dtype, rate in self.flops.items():
            flops[dtype] = max(rate, flops.get(dtype, 0.0))
        return Ceilings(self.device, _never_rising(rates), flops)

    def floor_s(
        self,
        flop: float,
        moved_bytes: float,
        dtype: str = "float32",
        working_set: float = math.inf,
    ) -> float:
        """Return the least seconds for so much arithmetic and memory traffic.

        Raises:
            KernelError: there is arithmetic, and its rate is not known for ``dtype``.
        """
        if flop and dtype not in self.flops:
            raise KernelError(
                f"{self.device}: no rate is known for {dtype}; known are {', '.join(self.flops)}"
            )
        arithmetic = flop / self.flops[dtype] if flop else 0.0
        return max(arithmetic, moved_bytes / self.bandwidth(working_set))


def ceilings_of(device: Device, again: bool = False) -> Ceilings:
    """Return the ceilings of a device: from disk, or measured now, which takes some seconds.

    Args:
        device: whose.
        again: whether they are measured though they are on disk: the higher rates count then, as
            a device that was busy the first time was slower than it is.

    Raises:
        DeviceError: there is no such device.
        CompilerMissing: it cannot be measured without a compiler.
    """
    known = known_ceilings(device)
    if known is not None and not again:
        return known
    name = _identity(device)
    measured = _measure(device, name)
    if known is not None:
        measured = measured.or_higher(known)
    write_atomically(_path(name), json.dumps(asdict(measured)).encode(), missing_ok=True)
    return measured


def known_ceilings(device: Device) -> Ceilings | None:
    """Return the ceilings of a device that were measured before, or None."""
    try:
        return Ceilings.from_json(json.loads(read_own(_path(_identity(device)))))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _path(name: str) -> Path:
    digest = hashlib.sha256(f"{_VERSION} {name}".encode()).hexdigest()[:24]
    return environment.cache_dir() / "ceilings" / f"{digest}.json"


def _identity(device: Device) -> str:
    if device.kind == "cpu":
        return f"cpu {host_cpu()} {device.multi_processor_count} threads"
    from autotune.runtime.nvidia.driver import driver_version  # imports PyCUDA where it is

    return f"{device.device_name} driver {driver_version()}"


def _measure(device: Device, name: str) -> Ceilings:
    target = device.target
    make: Callable[[int], RooflineKernels] = part(target.backend.ceilings)
    kernels = make(device.multi_processor_count)
    flops = {}
    for dtype, (kernel, count) in kernels.arithmetic.items():
        try:
            flops[dtype] = count / _least_s(kernel, target, device)
        except CompileError:
            # This architecture has no such instruction; the type has no rate then.
            continue
    rates: dict[int, float] = {}
    for one in kernels.traffic:
        seconds = _least_s(one.kernel, target, device, one.plan)
        rate = one.working_set * one.passes / seconds
        rates[one.working_set] = max(rate, rates.get(one.working_set, 0.0))
    return Ceilings(name, _never_rising(rates), flops)


def _never_rising(rates: Mapping[int, float]) -> tuple[tuple[int, float], ...]:
    """Return the rates by increasing size, each the maximum over this size and larger ones.

    Kernels on little data may not fill a device, which does not limit a kernel that does.
    """
    most, pairs = 0.0, []
    for size in sorted(rates, reverse=True):
        most = max(most, rates[size])
        pairs.append((size, most))
    return tuple(reversed(pairs))


def _least_s(kernel: Kernel, target: Target, device: Device, plan: Sequence[int] = ()) -> float:
    """Return the least time of a kernel; noise only ever adds."""
    inputs = [np.ones(a.shape, a.dtype) for a in kernel.inputs]
    if plan:
        inputs[1][:] = plan
    with temporary_folder("roofline") as folder:
        output = compile_kernel(kernel, target, timeout_s=300, out_dir=Path(folder))
        with load(output.artifact, kernel, device) as executable:
            return _least_of_rounds(executable, executable.allocate(inputs))


def _least_of_rounds(executable: Executable, buffers: Buffers) -> float:
    """Return the least seconds of one run, once several samples agree on it."""
    samples: list[float] = []
    began = time.perf_counter()
    for _ in range(_MOST_ROUNDS):
        samples += executable.time(buffers, _OPTIONS).samples_s
        near = sum(one <= _WITHIN * min(samples) for one in samples)
        if near >= _AGREEING and time.perf_counter() - began >= _LEAST_S:
            break
    return min(samples)
