"""Descriptors of devices: numbers by which models learn across devices, and classes.

Times of a kernel on devices of one class may be compared, and a result belongs to a class; what
makes kernels fast on one class is a hint for the next, the more alike the two are. The columns
are those by which rooflines and occupancy are computed: how many processors, how fast they and
the memory are, how much fits where, and what small kernels of ours measured.
"""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from autotune.errors import DeviceError
from autotune.runtime.device import Device
from autotune.runtime.roofline import Ceilings, known_ceilings
from autotune.target import CudaDevice, cuda_device


@dataclass(frozen=True)
class Descriptor:
    """One class of devices. A number that is not known is 0.

    Attributes:
        kind: ``"cuda"`` or ``"cpu"``.
        name: that its maker gave it.
        arch: such as ``sm_90``, or ``x86_64_x16`` of 16 cores.
        processors: multiprocessors of a GPU, cores of a CPU that may be used.
        clock_mhz, memory_clock_mhz: the most that they reach.
        bus_bits: width of the path to its memory.
        memory_bytes, cache_bytes: of the memory, and of the last cache.
        shared_bytes, registers, threads_per_block: limits of a block.
        bandwidth, cache_bandwidth: bytes per second that were measured, from memory and at most.
        flops, half_flops: operations per second that were measured, of float32 and of float16.
    """

    kind: str
    name: str
    arch: str = ""
    processors: int = 0
    clock_mhz: float = 0.0
    memory_clock_mhz: float = 0.0
    bus_bits: int = 0
    memory_bytes: int = 0
    cache_bytes: int = 0
    shared_bytes: int = 0
    registers: int = 0
    threads_per_block: int = 0
    bandwidth: float = 0.0
    cache_bandwidth: float = 0.0
    flops: float = 0.0
    half_flops: float = 0.0

    @property
    def key(self) -> str:
        """The class, see `autotune.target.device_class`; of a CPU with the cores that may be used.

        A part of a GPU (MIG) has a name of its own.
        """
        return f"{self.name} ({self.arch})"

    @property
    def model(self) -> str:
        """The class as ``-model`` of a target, by which `apply_history_best` finds its records."""
        return re.sub(r"[^A-Za-z0-9_.]+", "-", self.key).strip("-")

    @property
    def columns(self) -> tuple[float, ...]:
        """Features for models, one for each of `COLUMNS`: base-2 logarithms, 0 of nothing."""
        values = [float(getattr(self, name)) for name in COLUMNS]
        return tuple(math.log2(value) if value > 0 else 0.0 for value in values)

    def to_json(self) -> dict[str, object]:
        """Return it as plain data."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, object]) -> Descriptor:
        """Read what `to_json` wrote; columns that a later version added are passed over.

        Raises:
            DeviceError: it is something else.
        """
        try:
            known = {one.name: data[one.name] for one in fields(Descriptor) if one.name in data}
            texts = {name: str(known[name]) for name in ("kind", "name")}
            numbers = {name: _number(known[name]) for name in COLUMNS if name in known}
            return Descriptor(**{**numbers, **texts, "arch": str(known.get("arch", ""))})  # type: ignore[arg-type]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DeviceError(f"no description of a device: {str(data)[:200]!r}") from error


# Fields that are numbers: the columns of a model.
COLUMNS = tuple(one.name for one in fields(Descriptor) if one.name not in ("kind", "name", "arch"))


def _number(value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"a number is expected, got {value!r}")
    if not 0 <= value < math.inf:
        raise ValueError(f"a number from 0 on is expected, got {value!r}")
    return value


def describe(device: Device, ceilings: Ceilings | None = None) -> Descriptor:
    """Describe a device, without making a context on it.

    Args:
        device: which.
        ceilings: what was measured of it; by default what an earlier run left on disk, if any.

    Raises:
        DeviceError: there is no such device.
    """
    if device.kind == "cpu":
        cores = device.multi_processor_count
        found = Descriptor("cpu", _cpu_name(), f"{platform.machine()}_x{cores}", cores)
    else:
        driver = cuda_device(device.index)
        if driver is None:
            raise DeviceError(f"{device}: there is no such device to describe")
        found = _of_cuda(driver)
    ceilings = known_ceilings(device) if ceilings is None else ceilings
    if ceilings is None:
        return found
    return replace(
        found,
        bandwidth=ceilings.bytes_per_s,
        cache_bandwidth=max(rate for _, rate in ceilings.bandwidths),
        flops=ceilings.flops.get("float32", 0.0),
        half_flops=ceilings.flops.get("float16", 0.0),
    )


def _of_cuda(found: CudaDevice) -> Descriptor:
    return Descriptor(
        kind="cuda",
        name=found.name,
        arch=found.arch,
        processors=found.limits.sm_count,
        clock_mhz=found.clock_khz / 1e3,
        memory_clock_mhz=found.memory_khz / 1e3,
        bus_bits=found.bus_bits,
        memory_bytes=found.total_bytes,
        cache_bytes=found.l2_bytes,
        shared_bytes=found.limits.shared_bytes_optin,
        registers=found.limits.registers,
        threads_per_block=found.limits.threads_per_block,
    )


def _cpu_name() -> str:
    """Return the name of the CPU's model as Linux tells it, or its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or Device("cpu", 0).device_name
