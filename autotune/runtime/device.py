"""Devices: where arrays live and kernels run."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from autotune.errors import DeviceError
from autotune.target import Target, cuda_device_count
from autotune.target.backends import Facts, of_device, part
from autotune.utils.check import Check
from autotune.utils.environment import processors

# Scripts ask of any kind that TVM has whether there is one; only the first two ever exist here.
DeviceKind = Literal[
    "cpu", "cuda", "opencl", "vulkan", "metal", "rocm", "ext_dev", "webgpu", "hexagon"
]
# DLPack's numbers of device kinds (dlpack.h, DLDeviceType).
DEVICE_TYPES: dict[DeviceKind, int] = {
    "cpu": 1, "cuda": 2, "opencl": 4, "vulkan": 7, "metal": 8, "rocm": 10, "ext_dev": 12,
    "webgpu": 15, "hexagon": 16,
}  # fmt: skip
_NAMES: dict[str, DeviceKind] = {
    "cpu": "cpu", "llvm": "cpu", "c": "cpu", "cuda": "cuda", "gpu": "cuda", "nvptx": "cuda",
    "cl": "opencl", **{kind: kind for kind in DEVICE_TYPES},
}  # fmt: skip


@dataclass(frozen=True)
class Device:
    """One device: its kind and number. ``str`` gives ``cuda:0``."""

    # TVM's numbers of kinds, by all their names.
    STR2MASK: ClassVar[Mapping[str, int]] = {name: DEVICE_TYPES[k] for name, k in _NAMES.items()}
    kind: DeviceKind
    index: int = 0

    def __post_init__(self) -> None:
        Check(DeviceError, "Device").one_of("kind", self.kind, DEVICE_TYPES)
        Check(DeviceError, f"device {self.kind!r}").whole("index", self.index, least=0)

    @property
    def device_type(self) -> int:
        """DLPack's number of the kind: 1 for cpu, 2 for cuda."""
        return DEVICE_TYPES[self.kind]

    @property
    def device_id(self) -> int:
        """The number of the device among those of its kind."""
        return self.index

    @property
    def exist(self) -> bool:
        """Whether this process can use the device."""
        if self.kind == "cpu":
            return self.index == 0
        return self._facts is not None

    def require(self) -> None:
        """Check that this process can use the device.

        Raises:
            DeviceError: it cannot.
        """
        if not self.exist:
            raise DeviceError(
                f"{self}: there is no such device here; without one, target 'cuda -emulate' runs "
                "CUDA text on the CPU, and 'llvm' takes C"
            )

    def sync(self) -> None:
        """Wait for everything that was queued on the device, on whatever stream.

        Raises:
            DeviceError: something that ran there failed.
        """
        backend = of_device(self.kind)
        memory = None if backend is None else part(backend.memory)()
        if memory is not None and self.exist:
            memory.synchronize(self)

    @property
    def is_working(self) -> bool:
        """Whether it was running kernels just now, of any process; False where nothing tells."""
        backend = of_device(self.kind)
        memory = None if backend is None else part(backend.memory)()
        return memory is not None and self.exist and bool(memory.is_working(self))

    @property
    def device_name(self) -> str:
        """The name its maker gave it."""
        if self.kind != "cpu":
            return self._known.name
        return platform.processor() or platform.machine()

    @property
    def compute_version(self) -> str:
        """Compute capability of a CUDA device, such as ``"9.0"``."""
        digits = self._known.arch.removeprefix("sm_")
        return f"{digits[:-1]}.{digits[-1]}"

    @property
    def max_threads_per_block(self) -> int:
        """Most threads of one block."""
        return self._known.limits.threads_per_block

    @property
    def max_shared_memory_per_block(self) -> int:
        """Shared memory of one block in bytes, without opting in to more."""
        return self._known.limits.shared_bytes

    @property
    def warp_size(self) -> int:
        """Threads that run in lock-step."""
        return self._known.limits.warp_size

    @property
    def multi_processor_count(self) -> int:
        """Multiprocessors of a CUDA device, processors this process may use of a CPU."""
        return processors() if self.kind == "cpu" else self._known.limits.sm_count

    @property
    def target(self) -> Target:
        """The target of kernels for this very device.

        Raises:
            DeviceError: there is no such device, or nothing builds for its kind.
        """
        if self.kind == "cpu":
            return Target("c")
        return Target(f"{self.kind} -arch={self._known.arch}")

    @property
    def _facts(self) -> Facts | None:
        backend = of_device(self.kind)
        return None if backend is None else backend.query(self.index)

    @property
    def _known(self) -> Facts:
        found = self._facts
        if found is None:
            raise DeviceError(
                f"{self}: there is no such device; {cuda_device_count()} CUDA devices are visible"
            )
        return found

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


def device(kind: str | Target, index: int = 0) -> Device:
    """Return a device by kind (``"cuda"``, ``"cpu"``, ``"llvm"``), ``"cuda:1"``, or target.

    The device of an emulated CUDA target is the CPU, where its kernels run.

    Args:
        kind: which of them, or a target.
        index: number of the GPU, from 0, where ``kind`` has none.

    Raises:
        DeviceError: there is no such kind.
    """
    name = str(kind)
    if not isinstance(kind, Target) and " " not in name:
        name, colon, digits = name.partition(":")
        if colon and not (digits.isascii() and digits.isdigit()):
            Check(DeviceError, "device").refuse("kind", "such as 'cuda' or 'cuda:1'", kind)
        index = int(digits) if colon else index
    else:
        target = Target(kind)
        name = "cpu" if target.emulate else str(target.kind)
    if name not in _NAMES:
        raise DeviceError(f"device {name!r}: expected one of {', '.join(sorted(_NAMES))}")
    return Device(_NAMES[name], index)


def cpu(index: int = 0) -> Device:
    """Return the CPU."""
    return Device("cpu", index)


def cuda(index: int = 0) -> Device:
    """Return CUDA device ``index``."""
    return Device("cuda", index)


def gpu(index: int = 0) -> Device:
    """Return CUDA device ``index``; the name that TVM used until 0.8."""
    return cuda(index)
