"""Replies of the processes that run kernels: frozen data, with one encoding.

A kernel may have corrupted the memory of a child, so `reply_of` checks each reply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

from autotune.measure.evidence import Energy
from autotune.measure.evidence_json import energy_of
from autotune.measure.process.died import Died
from autotune.measure.run.host_load import HostUse
from autotune.measure.types import MeasureErrorNo
from autotune.runtime.roofline import Ceilings
from autotune.runtime.timing import Clocks, Timing
from autotune.utils.plain_data import count, flag, listed, mapping, real, text


@dataclass(frozen=True)
class Ran:
    """A `RunJob` was done and nothing was wrong.

    Attributes:
        timing: of the candidate.
        verified: whether its answer was compared with a reference.
        host: what else the host did while it was timed.
        phases: seconds by what was done; "time" is how long the device was at work to be timed.
        energy: of one run, where it was asked for.
    """

    timing: Timing
    verified: bool = False
    host: HostUse = field(default_factory=HostUse)
    phases: Mapping[str, float] = field(default_factory=dict)
    energy: Energy | None = None


@dataclass(frozen=True)
class Raced:
    """A `RaceJob` was done: a timing of each candidate, in order."""

    timings: tuple[Timing, ...]
    host: HostUse = field(default_factory=HostUse)


@dataclass(frozen=True)
class Computed:
    """A `ReferenceJob` was done: the outputs are in their files."""


@dataclass(frozen=True)
class Rated:
    """A `CeilingJob` was done."""

    ceilings: Ceilings


@dataclass(frozen=True)
class Failed:
    """A job failed, and the process says why.

    Attributes:
        error_no: the kind of failure.
        message: in the words of the device, the checker, or Python.
        leaving: whether the process ends now, because it is of no more use.
        phases: as of `Ran`; empty where it did not come to that.
    """

    error_no: MeasureErrorNo
    message: str
    leaving: bool = False
    phases: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Unable:
    """The system lacked resources to start the job."""

    message: str


Done = Ran | Raced | Computed | Rated
Reply = Done | Failed | Died | Unable


def why_not(reply: Reply) -> str:
    """Return why a reply is not the one that was hoped for."""
    if isinstance(reply, (Failed, Died, Unable)):
        return reply.message
    return f"it was answered by {type(reply).__name__}"


def to_json(reply: Reply) -> dict[str, object]:
    """Return a reply as plain data."""
    return {"reply": type(reply).__name__, **asdict(reply)}


def reply_of(data: object) -> Reply:
    """Read what `to_json` wrote.

    Raises:
        ValueError: it is something else.
    """
    try:
        row = mapping(data)
        return _READERS[text(row["reply"])](row)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"no reply of a process that runs kernels: {data!r}") from error


def _read_timing(data: Mapping[str, object]) -> Timing:
    low, high = map(real, listed(data["ci95"]))
    floor, clocks = data["noise_floor"], data["clocks"]
    return Timing(
        samples_s=tuple(map(real, listed(data["samples_s"]))),
        number=count(data["number"]),
        median=real(data["median"]),
        mean=real(data["mean"]),
        ci95=(low, high),
        noise_floor=None if floor is None else real(floor),
        dropped=count(data["dropped"]),
        throttled=flag(data["throttled"]),
        cut_short=flag(data["cut_short"]),
        clocks=None if clocks is None else _read_clocks(mapping(clocks)),
        input_sets=count(data["input_sets"]),
        preempted=count(data["preempted"]),
        cpu_time=flag(data["cpu_time"]),
    )


def _read_clocks(data: Mapping[str, object]) -> Clocks:
    return Clocks(
        sm_mhz=int(real(data["sm_mhz"])),
        memory_mhz=int(real(data["memory_mhz"])),
        temperature_c=int(real(data["temperature_c"])),
        slowed_by=tuple(map(text, listed(data["slowed_by"]))),
        throttled=flag(data["throttled"]),
        preempted=flag(data["preempted"]),
        cpu_time=flag(data["cpu_time"]),
    )


def _read_host(data: Mapping[str, object]) -> HostUse:
    seconds = {name: real(value) for name, value in data.items() if name != "cores"}
    return HostUse(cores=count(data["cores"]), **seconds)


def _read_ran(data: Mapping[str, object]) -> Ran:
    energy = data["energy"]
    return Ran(
        _read_timing(mapping(data["timing"])),
        flag(data["verified"]),
        _read_host(mapping(data["host"])),
        _read_phases(data),
        None if energy is None else energy_of(energy),
    )


def _read_raced(data: Mapping[str, object]) -> Raced:
    timings = [_read_timing(mapping(one)) for one in listed(data["timings"])]
    return Raced(tuple(timings), _read_host(mapping(data["host"])))


def _read_failed(data: Mapping[str, object]) -> Failed:
    kind = MeasureErrorNo(count(data["error_no"]))
    return Failed(kind, text(data["message"]), flag(data["leaving"]), _read_phases(data))


def _read_died(data: Mapping[str, object]) -> Died:
    code = data["exit_code"]
    exit_code = None if code is None else int(real(code))
    return Died(text(data["message"]), flag(data["timed_out"]), exit_code)


def _read_phases(data: Mapping[str, object]) -> dict[str, float]:
    return {name: real(seconds) for name, seconds in mapping(data["phases"]).items()}


_READERS: dict[str, Callable[[Mapping[str, object]], Reply]] = {
    "Ran": _read_ran,
    "Raced": _read_raced,
    "Computed": lambda data: Computed(),
    "Rated": lambda data: Rated(Ceilings.from_json(data["ceilings"])),
    "Failed": _read_failed,
    "Died": _read_died,
    "Unable": lambda data: Unable(text(data["message"])),
}
