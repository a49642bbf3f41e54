"""What a worker is: its host, its devices, and what it can compile."""

from __future__ import annotations

import os
import platform
import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.errors import AutotuneError, FleetError
from autotune.fleet.messages import PROTOCOL
from autotune.runtime.compile.toolchain import host_cpu, host_toolchain, nvcc_toolchain
from autotune.target import (
    cuda_device,
    cuda_device_count,
    cuda_device_uuid,
    cuda_driver_release,
    processors,
)
from autotune.version import __version__

CPU = "cpu:0"


@dataclass(frozen=True)
class DeviceFacts:
    """One device of a worker.

    Attributes:
        key: ``"cuda:0"`` or ``"cpu:0"``; the number is the worker's own.
        name: that its maker gave it.
        arch: ``sm_90`` of a GPU; of a CPU a digest of what ``-march=native`` stands for there.
        uuid: tells it from any other device of that name; empty where it has none.
        release: of CUDA that its driver is for; empty for a CPU.
        processors, memory_bytes: how many, and how much.
    """

    key: str
    name: str
    arch: str
    uuid: str = ""
    release: str = ""
    processors: int = 0
    memory_bytes: int = 0

    @property
    def kind(self) -> str:
        """``"cuda"`` or ``"cpu"``."""
        return self.key.partition(":")[0]

    @property
    def index(self) -> int:
        """Its number with the worker."""
        return int(self.key.partition(":")[2])

    @property
    def device_class(self) -> str:
        """What is equal for devices whose times may be compared."""
        return f"{self.name} ({self.arch})"


@dataclass(frozen=True)
class AgentFacts:
    """One worker.

    Attributes:
        agent: tells it from any other, also from the one that was started in its place.
        name, host, pid: who it is, for people.
        version: of autotune.
        cpu: digest of its CPU, for which C is compiled.
        toolkit: release of nvcc, such as ``"13.0"``; empty without one.
        compiler: what its C compiler says of itself; empty without one.
        devices: on which it measures.
        builders: how many compilations it does at once.
        protocol: which messages it understands.
    """

    agent: str
    name: str
    host: str
    pid: int
    version: str
    cpu: str
    toolkit: str
    compiler: str
    devices: tuple[DeviceFacts, ...]
    builders: int
    protocol: int = PROTOCOL

    def to_json(self) -> dict[str, object]:
        """Return them as plain data."""
        return asdict(self)


def facts_of(data: Mapping[str, Any]) -> AgentFacts:
    """Read what `AgentFacts.to_json` wrote.

    Raises:
        FleetError: it is something else.
    """
    try:
        devices = tuple(DeviceFacts(**one) for one in data["devices"])
        return AgentFacts(**{**data, "devices": devices})
    except (KeyError, TypeError, ValueError) as error:
        raise FleetError(f"no facts of a worker: {str(data)[:200]!r}") from error


def major(release: str) -> int:
    """Return 13 of ``"13.0"``; 0 of nothing."""
    first = release.partition(".")[0]
    return int(first) if first.isdecimal() else 0


def look_around(name: str, devices: Sequence[DeviceFacts], builders: int) -> AgentFacts:
    """Return what is known of this host, with these devices and builders."""
    return AgentFacts(
        agent=secrets.token_hex(8),
        name=name,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=__version__,
        cpu=host_cpu(),
        toolkit=_toolkit(),
        compiler=_compiler(),
        devices=tuple(devices),
        builders=builders,
    )


def devices_here(wanted: Sequence[str] | None) -> tuple[DeviceFacts, ...]:
    """Return devices of this host by their keys; by default all GPUs, or without any the CPU.

    Raises:
        FleetError: there is no such device.
    """
    if wanted is None:
        wanted = [f"cuda:{i}" for i in range(cuda_device_count())] or [CPU]
    return tuple(_device(key) for key in dict.fromkeys(wanted))


def _device(key: str) -> DeviceFacts:
    if key in ("cpu", CPU):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return DeviceFacts(CPU, _cpu_name(), host_cpu(), "", "", processors(), memory)
    kind, _, number = key.partition(":")
    found = cuda_device(int(number)) if kind == "cuda" and number.isdecimal() else None
    if found is None:
        raise FleetError(
            f"device {key!r}: expected cpu, or one of the {cuda_device_count()} CUDA devices "
            "that are visible here, such as cuda:0"
        )
    return DeviceFacts(
        key, found.name, found.arch, cuda_device_uuid(int(number)), cuda_driver_release(),
        found.limits.sm_count, found.total_bytes,
    )  # fmt: skip


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        text = ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return named[1].strip() if named else platform.processor() or platform.machine()


def _toolkit() -> str:
    try:
        named = re.search(r"release (\d+\.\d+)", nvcc_toolchain().version)
    except AutotuneError:
        return ""
    return named[1] if named else ""


def _compiler() -> str:
    try:
        return host_toolchain().version.partition("\n")[0]
    except AutotuneError:
        return ""
