"""Requests of clients to workers, and the replies: frozen dataclasses, each with one encoding.

A message is a dict of text, numbers, lists and bytes. Its key ``ask`` or ``answer`` holds the name
of the class. No Python code of the user is ever sent.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from autotune.errors import FleetError
from autotune.fleet.encoding import from_plain, to_plain, with_lists
from autotune.measure.build.job import BuildJob
from autotune.measure.run.jobs import CeilingJob, RaceJob, RunJob
from autotune.measure.types import MeasureErrorNo
from autotune.utils.escaping import visible
from autotune.utils.plain_data import flag, mapping, number, text

# Increased with every change by which two versions of autotune would misunderstand each other.
PROTOCOL = 3
AnyJob = RunJob | RaceJob | CeilingJob
# Texts of a message that become file names or suffixes.
_SUFFIX = re.compile(r"(\.[a-z]{1,8})?")
_NAME, _TRANSFER = re.compile(rf"[0-9a-f]{{64}}{_SUFFIX.pattern}"), re.compile("[0-9a-f-]{1,80}")
# Errors that reading a malformed message may raise.
_WRONG = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
# The longest time that one job may occupy a device or a builder, since others wait for it.
MOST_TIMEOUT_S = 86400.0
# A reason is cut to so many characters.
_LETTERS = 2000


@dataclass(frozen=True)
class Sender:
    """The client that sends a request.

    Attributes:
        client: the unique name of one `Fleet` object.
        weight: its share of each device's time, relative to other clients.
    """

    client: str
    weight: float = 1.0


@dataclass(frozen=True)
class Build:
    """A request to compile a kernel; the answer is `Built` or `Unable`.

    Attributes:
        job: the compilation; the worker replaces its folder and adapts its flags.
        timeout_s: seconds after which the compiling process is killed.
        headers: path (on the client) and text of each header of the user's.
    """

    sender: Sender
    job: BuildJob
    timeout_s: float
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Run:
    """A request to run a job on a device; the answer is `Done`, `Missing` or `Unable`.

    Attributes:
        job: the job, with a hash and a suffix in place of the path of each file.
        device: key of one of the worker's devices.
        target: the target for which the kernels were built.
        seed: seed by which the worker draws random inputs; None if the user supplied the inputs.
        cooldown_s: how long the device rests afterwards.
        memory_bytes: the most memory that a kernel on the CPU may map; 0 for no limit.
        files: contents of small files, by name.
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
class FileChunk:
    """A part of a file; the answer is `Received` or `Unable`.

    Attributes:
        transfer: identifies the transfer to which the part belongs.
        name: of the file: its hash and suffix.
        start: offset of the part in the file.
        total: size of the file.
    """

    transfer: str
    name: str
    start: int
    total: int
    data: bytes


@dataclass(frozen=True)
class Facts:
    """A request for the description of a worker; the answer is `Data` with its `AgentFacts`."""


@dataclass(frozen=True)
class Forget:
    """A request to drop all waiting jobs of a client that is about to end."""

    client: str


Ask = Build | Run | FileChunk | Facts | Forget


@dataclass(frozen=True)
class Built:
    """The compiler has run; the other attributes are those of a `BuildResult`.

    Attributes:
        artifact: contents of the compiled file; empty if compilation failed.
        suffix: suffix of its file name.
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
    """A job has run.

    Attributes:
        reply: the reply of the device's process, as plain data.
        waited_s: seconds that the job waited because other clients used the device.
        queued_s: seconds that it waited for earlier jobs of its own client.
    """

    reply: Mapping[str, object]
    waited_s: float = 0.0
    queued_s: float = 0.0


@dataclass(frozen=True)
class Missing:
    """The worker lacks these files; the client sends them and asks again."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Received:
    """The request was received; there is nothing to return."""


@dataclass(frozen=True)
class Unable:
    """The worker could not start the job; the trial is not to blame.

    Attributes:
        reason: why, in the worker's words.
        for_good: whether this worker can never run such jobs.
    """

    reason: str
    for_good: bool = False


@dataclass(frozen=True)
class Data:
    """The requested information, as plain data."""

    data: Mapping[str, object]


Answer = Built | Done | Missing | Received | Unable | Data


def ask_to_plain(ask: Ask) -> dict[str, object]:
    """Return a request as a message."""
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
        FleetError: the message is malformed, or of another version.
    """
    try:
        if message["protocol"] != PROTOCOL:
            raise FleetError(
                f"the client speaks version {message['protocol']} of the fleet's protocol, this "
                f"worker {PROTOCOL}: install the same autotune on both"
            )
        return _ASKS[message["ask"]](with_lists(message))
    except _WRONG as error:
        raise FleetError(f"malformed request: {type(error).__name__}: {error}") from error


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
    """Return a timeout; none is unlimited, since other clients wait."""
    limit = number(seconds)
    if not 0 < limit <= MOST_TIMEOUT_S:
        raise ValueError(f"a timeout of {limit:g} s; at most {MOST_TIMEOUT_S:g} s are allowed")
    return limit


def _bytes(data: object) -> bytes:
    """Return bytes. ``bytes(5)`` would be five zeros, so numbers are refused."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"bytes are expected, got {data!r:.100}")
    return bytes(data)


def file_name(name: str) -> str:
    """Check the name of a file and return it.

    Raises:
        ValueError: it is not a hash with a suffix.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no hash")
    return name


def _file_chunk(message: Mapping[str, Any]) -> FileChunk:
    if not _TRANSFER.fullmatch(message["transfer"]):
        raise ValueError(f"{message['transfer']!r} is no name of a transfer")
    return FileChunk(
        message["transfer"],
        file_name(message["name"]),
        int(message["start"]),
        int(message["total"]),
        _bytes(message["data"]),
    )


_ASKS: dict[str, Callable[[Mapping[str, object]], Ask]] = {
    "Build": _build,
    "Run": _run,
    "FileChunk": _file_chunk,
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
        FleetError: the message is malformed.
    """
    try:
        return _ANSWERS[message["answer"]](with_lists(message))
    except _WRONG as error:
        raise FleetError(f"malformed answer: {visible(reprlib.repr(message))}") from error


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
    "Received": lambda one: Received(),
    "Unable": lambda one: Unable(loggable(one["reason"]), flag(one["for_good"])),
    "Data": lambda one: Data(mapping(one["data"])),
}


def loggable(reason: object) -> str:
    """Return a text of another program in the form in which it may be logged: short, printable."""
    return visible(text(reason)[:_LETTERS], lines=True)
