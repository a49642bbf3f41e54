"""Requests of clients to workers, and their replies: frozen data with one encoding each.

A message is a dict of text, numbers, lists and bytes. Its key ``ask`` or ``answer`` names what it
is; nothing in it is code of a user's Python.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from autotune.errors import FleetError
from autotune.fleet.plain import from_plain, to_plain, with_lists
from autotune.measure.build.job import BuildJob
from autotune.measure.run.jobs import CeilingJob, RaceJob, RunJob
from autotune.measure.types import MeasureErrorNo
from autotune.utils.plain_data import flag, mapping, number, text
from autotune.utils.visible import visible

# Changed whenever the two ends would misunderstand each other.
PROTOCOL = 2
AnyJob = RunJob | RaceJob | CeilingJob
# They become names of files, and ends of such.
_SUFFIX = re.compile(r"(\.[a-z]{1,8})?")
_NAME, _TRANSFER = re.compile(rf"[0-9a-f]{{64}}{_SUFFIX.pattern}"), re.compile("[0-9a-f-]{1,80}")
# What is wrong with a message shows as one of these when it is read.
_WRONG = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
# The longest that one job may have a device, or a builder, which others wait for.
MOST_TIMEOUT_S = 86400.0
# Characters of a reason that are sent.
_LETTERS = 2000


@dataclass(frozen=True)
class Sender:
    """The client that sends a request.

    Attributes:
        client: one `Fleet`, by a name that no other has.
        weight: its share of the time of each device, relative to others'.
    """

    client: str
    weight: float = 1.0


@dataclass(frozen=True)
class Build:
    """Compile a kernel; `Built` or `Unable` is the answer.

    Attributes:
        job: its folder and flags are made to fit the worker there.
        timeout_s: seconds until the process that compiles is killed over it.
        headers: path and text of the user's own headers on the client.
    """

    sender: Sender
    job: BuildJob
    timeout_s: float
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Run:
    """Do a job on a device; `Done`, `Missing` or `Unable` is the answer.

    Attributes:
        job: with the names of files in place of their paths: their hashes, and of what kind.
        device: which of the worker's.
        target: what its kernels are built for.
        seed: random inputs are made of it there; None where they are the user's own.
        cooldown_s: the device rests afterwards.
        memory_bytes: most a kernel on the CPU may map; 0 for no limit.
        files: contents of small files by name, sent along.
    """

    sender: Sender
    job: AnyJob
    device: str
    target: str
    seed: int | None
    cooldown_s: float
    memory_bytes: int
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class Parcel:
    """A part of a file; `Taken` or `Unable` is the answer."""

    transfer: str
    name: str
    start: int
    total: int
    data: bytes


@dataclass(frozen=True)
class Facts:
    """A request for the description of a worker; the reply is `AgentFacts` as plain data."""


@dataclass(frozen=True)
class Forget:
    """Drop what waits of a client, which is about to end."""

    client: str


Ask = Build | Run | Parcel | Facts | Forget


@dataclass(frozen=True)
class Built:
    """A compiler was asked; the attributes are those of a `BuildResult`.

    Attributes:
        artifact: what is in the file; empty where the compiler refused.
        suffix: of the file's name.
    """

    artifact: bytes
    suffix: str
    resources: Mapping[str, int]
    error_no: int
    error_msg: str
    time_cost: float
    code_hash: str


@dataclass(frozen=True)
class Done:
    """A job was done.

    Attributes:
        reply: of the device's process, as plain data.
        waited_s: seconds that it waited while others than its client used the device.
        queued_s: seconds that it waited for what its own client had there before it.
    """

    reply: Mapping[str, object]
    waited_s: float = 0.0
    queued_s: float = 0.0


@dataclass(frozen=True)
class Missing:
    """The worker lacks files; send them and ask again."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Taken:
    """It arrived."""


@dataclass(frozen=True)
class Unable:
    """The worker could not begin, for a reason of its own: the trial is not to blame.

    Attributes:
        reason: in its own words.
        for_good: whether it will never do such work.
    """

    reason: str
    for_good: bool = False


@dataclass(frozen=True)
class Told:
    """Plain data that was requested."""

    data: Mapping[str, object]


Answer = Built | Done | Missing | Taken | Unable | Told


def ask_to_plain(ask: Ask) -> dict[str, object]:
    """Return a question as a message."""
    message = {"ask": type(ask).__name__, "protocol": PROTOCOL}
    match ask:
        case Build():
            return message | {
                "sender": asdict(ask.sender), "job": to_plain(ask.job),
                "timeout_s": ask.timeout_s, "headers": [list(one) for one in ask.headers],
            }  # fmt: skip
        case Run():
            return message | {
                "sender": asdict(ask.sender), "job": to_plain(ask.job), "device": ask.device,
                "target": ask.target, "seed": ask.seed, "cooldown_s": ask.cooldown_s,
                "memory_bytes": ask.memory_bytes, "files": dict(ask.files),
            }  # fmt: skip
        case _:
            return message | asdict(ask)


def ask_of(message: Mapping[str, Any]) -> Ask:
    """Read what `ask_to_plain` wrote.

    Raises:
        FleetError: it is something else.
    """
    try:
        if message["protocol"] != PROTOCOL:
            raise FleetError(
                f"the client speaks version {message['protocol']} of the fleet's protocol, this "
                f"worker {PROTOCOL}: install the same autotune on both"
            )
        return _ASKS[message["ask"]](with_lists(message))
    except _WRONG as error:
        raise FleetError(f"no message to a worker: {type(error).__name__}: {error}") from error


def _sender(message: Mapping[str, Any]) -> Sender:
    found = Sender(str(message["sender"]["client"]), float(message["sender"]["weight"]))
    if not 0 < found.weight < float("inf"):
        raise ValueError(f"a weight of {found.weight}")
    return found


def _build(message: Mapping[str, Any]) -> Build:
    headers = tuple((str(path), str(text)) for path, text in message["headers"])
    job = from_plain(BuildJob, message["job"])
    return Build(_sender(message), job, _limit(message["timeout_s"]), headers)


def _run(message: Mapping[str, Any]) -> Run:
    job = from_plain(object, message["job"])
    if not isinstance(job, AnyJob):
        raise FleetError(f"no job for a device: {type(job).__name__}")
    _limit(job.timeout_s)
    seed = message["seed"]
    return Run(
        sender=_sender(message),
        job=job,
        device=str(message["device"]),
        target=str(message["target"]),
        seed=None if seed is None else int(seed),
        cooldown_s=float(message["cooldown_s"]),
        memory_bytes=int(message["memory_bytes"]),
        files={file_name(name): _bytes(data) for name, data in message["files"].items()},
    )


def _limit(seconds: object) -> float:
    """Return for how long something may take: never for ever, as others wait for it."""
    limit = number(seconds)
    if not 0 < limit <= MOST_TIMEOUT_S:
        raise ValueError(f"a timeout of {limit:g} s; at most {MOST_TIMEOUT_S:g} s are allowed")
    return limit


def _bytes(data: object) -> bytes:
    """Return bytes; a number is none, though Python would make as many zeros of it."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"bytes are expected, got {data!r:.100}")
    return bytes(data)


def file_name(name: str) -> str:
    """Return the name of a file.

    Raises:
        ValueError: it is no hash with an end of a name.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no hash")
    return name


def _parcel(message: Mapping[str, Any]) -> Parcel:
    if not _TRANSFER.fullmatch(message["transfer"]):
        raise ValueError(f"{message['transfer']!r} is no name of a transfer")
    return Parcel(
        message["transfer"],
        file_name(message["name"]),
        int(message["start"]),
        int(message["total"]),
        _bytes(message["data"]),
    )


_ASKS: dict[str, Callable[[Mapping[str, object]], Ask]] = {
    "Build": _build,
    "Run": _run,
    "Parcel": _parcel,
    "Facts": lambda message: Facts(),
    "Forget": lambda message: Forget(str(message["client"])),
}


def answer_to_plain(answer: Answer) -> dict[str, object]:
    """Return an answer as a message."""
    fields = {name: getattr(answer, name) for name in answer.__dataclass_fields__}
    return {"answer": type(answer).__name__, **fields}


def answer_of(message: Any) -> Answer:
    """Read what `answer_to_plain` wrote.

    Raises:
        FleetError: it is something else.
    """
    try:
        return _ANSWERS[message["answer"]](with_lists(message))
    except _WRONG as error:
        raise FleetError(f"no answer of a worker: {_begin_of(message)}") from error


def _begin_of(message: object) -> str:
    return visible(reprlib.repr(message))


def _built(message: Mapping[str, Any]) -> Built:
    suffix = text(message["suffix"])
    if not _SUFFIX.fullmatch(suffix):
        raise ValueError(f"{suffix!r:.100} is no end of a file's name")
    resources = mapping(message["resources"])
    return Built(
        artifact=_bytes(message["artifact"]),
        suffix=suffix,
        resources={name: int(number(value)) for name, value in resources.items()},
        error_no=MeasureErrorNo(message["error_no"]),
        error_msg=text(message["error_msg"]),
        time_cost=max(0.0, number(message["time_cost"])),
        code_hash=text(message["code_hash"]),
    )


def _done(message: Mapping[str, object]) -> Done:
    waited_s, queued_s = (max(0.0, number(message[name])) for name in ("waited_s", "queued_s"))
    return Done(mapping(message["reply"]), waited_s, queued_s)


_ANSWERS: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
    "Built": _built,
    "Done": _done,
    "Missing": lambda one: Missing(tuple(map(text, one["names"]))),
    "Taken": lambda one: Taken(),
    "Unable": lambda one: Unable(told(one["reason"]), flag(one["for_good"])),
    "Told": lambda one: Told(mapping(one["data"])),
}


def told(reason: object) -> str:
    """Return what somebody else says, as a log may have it: of no great length, visible."""
    return visible(text(reason)[:_LETTERS], lines=True)
