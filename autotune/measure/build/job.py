"""Jobs for the processes that compile, and their replies: frozen data.

A child may have memory corrupted by a compiler, so `reply_of` checks each reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from autotune.kernel.kernel import Kernel
from autotune.target.backends import Compiler
from autotune.utils.plain_data import flag, mapping, real, text


@dataclass(frozen=True)
class BuildJob:
    """Compile this kernel for this target into this folder."""

    kernel: Kernel
    target: str
    timeout_s: float
    compiler: Compiler
    out_dir: str
    use_cache: bool = True


@dataclass(frozen=True)
class Compiled:
    """A kernel was compiled.

    Attributes:
        artifact: path of the file.
        resources: what the compiler says of registers, spills and shared memory.
        code_hash: of the machine code and the launches.
    """

    artifact: str
    resources: Mapping[str, int]
    code_hash: str


Reason = Literal["refused", "timeout", "crashed", "missing", "unknown"]
_REASONS: tuple[Reason, ...] = get_args(Reason)


@dataclass(frozen=True)
class NotCompiled:
    """A kernel was not compiled.

    Attributes:
        reason: the compiler refused the source, took too long, crashed, or is missing.
        message: in the compiler's own words where it said any.
        killed: of a crash, whether something else may have killed the compiler.
    """

    reason: Reason
    message: str
    killed: bool = False


BuildReply = Compiled | NotCompiled


def to_json(reply: BuildReply) -> dict[str, object]:
    """Return a reply as plain data."""
    return {"reply": type(reply).__name__, **asdict(reply)}


def reply_of(data: object) -> BuildReply:
    """Read what `to_json` wrote.

    Raises:
        ValueError: it is something else.
    """
    try:
        row = mapping(data)
        if row["reply"] == "Compiled":
            found = mapping(row["resources"])
            resources = {name: int(real(value)) for name, value in found.items()}
            return Compiled(text(row["artifact"]), resources, text(row["code_hash"]))
        if row["reply"] == "NotCompiled":
            reason = next(one for one in _REASONS if one == row["reason"])
            return NotCompiled(reason, text(row["message"]), flag(row["killed"]))
    except (KeyError, TypeError, StopIteration, ValueError) as error:
        raise ValueError(f"no reply of a process that compiles: {data!r}") from error
    raise ValueError(f"no reply of a process that compiles: {data!r}")
