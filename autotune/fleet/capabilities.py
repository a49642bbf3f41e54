"""The description of a worker: its host, its devices, and its compilers."""

from __future__ import annotations

import os
import re
import reprlib
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from autotune.errors import AutotuneError, DeviceError, FleetError
from autotune.fleet.messages import PROTOCOL
from autotune.runtime import Descriptor, Device, describe
from autotune.runtime.compile.toolchain import host_cpu, host_toolchain, nvcc_toolchain
from autotune.target import cuda_device, cuda_device_count, cuda_driver_release
from autotune.utils import plain_data as plain
from autotune.utils.escaping import visible
from autotune.version import __version__

CPU = "cpu:0"
_KEY = re.compile(r"(cuda|cpu):\d{1,3}")
# Limits on what a worker may claim of itself.
_MOST_DEVICES, _MOST_BUILDERS, _LETTERS = 1000, 4096, 200


@dataclass(frozen=True)
class DeviceFacts:
    """One device of a worker.

    Attributes:
        key: ``"cuda:0"`` or ``"cpu:0"``, numbered within the worker.
        arch: of a GPU, such as ``sm_90``; of a CPU, a digest of its ``-march=native``.
        descriptor: its measured and reported properties.
        uuid: unique id of the device; empty if it has none.
        release: the release of CUDA that its driver supports; empty for a CPU.
    """

    key: str
    arch: str
    descriptor: Descriptor
    uuid: str = ""
    release: str = ""

    @property
    def name(self) -> str:
        """The vendor's name of the device."""
        return self.descriptor.name

    @property
    def kind(self) -> str:
        """``"cuda"`` or ``"cpu"``."""
        return self.key.partition(":")[0]

    @property
    def index(self) -> int:
        """Its number within the worker."""
        return int(self.key.partition(":")[2])

    @property
    def device_class(self) -> str:
        """The class of devices whose times may be compared."""
        return self.descriptor.key


@dataclass(frozen=True)
class AgentFacts:
    """One worker.

    Attributes:
        agent: random id, which also distinguishes a restarted worker from its predecessor.
        name, host, pid: identify the worker to people.
        version: version of autotune.
        cpu: digest of its CPU, for which C is compiled.
        toolkit: release of nvcc, such as ``"13.0"``; empty without nvcc.
        compiler: first line of the C compiler's version; empty without a compiler.
        devices: the devices on which it measures.
        builders: how many compilations it runs at once.
        protocol: version of the messages that it understands.
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

    @property
    def places(self) -> list[str]:
        """Its places for jobs: its builders, and each device by its key."""
        return [*(["builders"] if self.builders else []), *(one.key for one in self.devices)]

    def to_json(self) -> dict[str, object]:
        """Return the description as plain data."""
        return asdict(self)


def agent_facts_of(data: object) -> AgentFacts:
    """Read what `AgentFacts.to_json` wrote.

    Raises:
        FleetError: the data is malformed.
    """
    try:
        row = plain.mapping(data)
        devices = tuple(_device_of(plain.mapping(one)) for one in plain.row(row["devices"]))
        if len({one.key for one in devices}) < len(devices) or len(devices) > _MOST_DEVICES:
            raise ValueError(f"{len(devices)} devices")
        return AgentFacts(
            agent=_word(row["agent"]),
            name=_word(row["name"]),
            host=_word(row["host"]),
            pid=plain.count(row["pid"]),
            version=_word(row["version"]),
            cpu=_word(row["cpu"]),
            toolkit=_word(row["toolkit"]),
            compiler=_word(row["compiler"]),
            devices=devices,
            builders=min(plain.count(row["builders"]), _MOST_BUILDERS),
            protocol=plain.count(row["protocol"]),
        )
    except (KeyError, TypeError, ValueError, DeviceError) as error:
        told = visible(reprlib.repr(data))
        raise FleetError(
            f"no facts of a worker: {type(error).__name__}: {error}: {told}"
        ) from error


def _device_of(row: Mapping[str, object]) -> DeviceFacts:
    key = plain.text(row["key"])
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r:.100} is no device")
    found = Descriptor.from_json(plain.mapping(row["descriptor"]))
    found = replace(found, kind=_word(found.kind), name=_word(found.name), arch=_word(found.arch))
    return DeviceFacts(
        key, _word(row["arch"]), found, _word(row.get("uuid", "")), _word(row.get("release", ""))
    )


def _word(value: object) -> str:
    """Return a text in the form in which logs and tables may show it: printable and short."""
    return visible(plain.text(value)[:_LETTERS])


def major(release: str) -> int:
    """Return the major number of a release: 13 for ``"13.0"``, 0 for an empty text."""
    first = release.partition(".")[0]
    return int(first) if first.isdecimal() else 0


def look_around(name: str, devices: Sequence[DeviceFacts], builders: int) -> AgentFacts:
    """Return the description of a worker on this host with these devices and builders."""
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
    """Return devices of this host by their keys; by default all GPUs, or the CPU without any.

    Raises:
        FleetError: a device does not exist.
    """
    if wanted is None:
        wanted = [f"cuda:{i}" for i in range(cuda_device_count())] or [CPU]
    return tuple(_device(key) for key in dict.fromkeys(wanted))


def _device(key: str) -> DeviceFacts:
    if key in ("cpu", CPU):
        return DeviceFacts(CPU, host_cpu(), describe(Device("cpu")))
    gpus = {f"cuda:{index}": index for index in range(cuda_device_count())}
    found = cuda_device(gpus[key]) if key in gpus else None
    if found is None:
        none = "" if gpus else "; no CUDA device is visible here"
        raise FleetError(f"device {key!r}: expected one of {', '.join(('cpu', *gpus))}{none}")
    descriptor = describe(Device("cuda", gpus[key]))
    return DeviceFacts(key, found.arch, descriptor, found.uuid, cuda_driver_release())


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
