"""What the processes that run kernels answer: frozen data, and its one form on the wire.

A child may have gone mad, so nothing of an answer is believed before `reply_of` has read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from autotune.measure.process.died import Died
from autotune.measure.run.host import HostUse
from autotune.measure.types import MeasureErrorNo
from autotune.runtime import Timing
from autotune.runtime.roofline import Ceilings
from autotune.runtime.timing import Clocks


@dataclass(frozen=True)
class Ran:
    """A `RunJob` was done and nothing was wrong.

    Attributes:
        timing: of the candidate.
        verified: whether its answer was compared with a reference.
        host: what else the host did while it was timed.
        phases: seconds by what was done; "time" is how long the device was at work to be timed.
    """

    timing: Timing
    verified: bool = False
    host: HostUse = field(default_factory=HostUse)
    phases: Mapping[str, float] = field(default_factory=dict)


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
    """The system had no room to begin the job."""

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


def reply_of(data: Any) -> Reply:
    """Read what `to_json` wrote.

    Raises:
        ValueError: it is something else.
    """
    try:
        return _READERS[data["reply"]](data)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"no reply of a process that runs kernels: {data!r}") from error


def _timing(data: Mapping[str, Any]) -> Timing:
    clocks = data["clocks"]
    if clocks is not None:
        clocks = Clocks(**{**clocks, "slowed_by": tuple(clocks["slowed_by"])})
    low, high = data["ci95"]
    samples = tuple(map(float, data["samples_s"]))
    return Timing(**{**data, "samples_s": samples, "ci95": (low, high), "clocks": clocks})


def _ran(data: Mapping[str, Any]) -> Ran:
    host = HostUse(**data["host"])
    return Ran(_timing(data["timing"]), bool(data["verified"]), host, _phases(data))


def _raced(data: Mapping[str, Any]) -> Raced:
    return Raced(tuple(map(_timing, data["timings"])), HostUse(**data["host"]))


def _failed(data: Mapping[str, Any]) -> Failed:
    number, message = MeasureErrorNo(data["error_no"]), str(data["message"])
    return Failed(number, message, bool(data["leaving"]), _phases(data))


def _died(data: Mapping[str, Any]) -> Died:
    code = data["exit_code"]
    return Died(str(data["message"]), bool(data["timed_out"]), None if code is None else int(code))


def _phases(data: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(seconds) for name, seconds in data["phases"].items()}


_READERS: dict[str, Callable[[Mapping[str, object]], Reply]] = {
    "Ran": _ran,
    "Raced": _raced,
    "Computed": lambda data: Computed(),
    "Rated": lambda data: Rated(Ceilings.from_json(data["ceilings"])),
    "Failed": _failed,
    "Died": _died,
    "Unable": lambda data: Unable(str(data["message"])),
}
