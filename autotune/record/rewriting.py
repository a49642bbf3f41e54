"""Replacing a log as a whole, while others may append to it."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.errors import RecordError
from autotune.record.codec import decode
from autotune.record.locking import locked, unlock
from autotune.record.packed import packed_for, unpacked
from autotune.utils.files import publish

# How long a row may take that another program began to write before a log was replaced.
_STRAGGLERS_S = 0.05


def rewrite(path: Path, change: Callable[[Iterable[str]], str]) -> None:
    """Replace a log by what ``change`` makes of its lines; what is appended meanwhile follows it.

    Raises:
        RecordError: it cannot be written; it is unchanged then.
    """
    path = Path(os.path.realpath(path))
    check_replaceable(path)
    with _report_errors(path), locked(path) as descriptor:
        content = unpacked(raw := _read(descriptor, 0))
        # Lines end where they do for who reads a log: at "\r" too.
        lines = io.TextIOWrapper(io.BytesIO(content), "utf-8", "replace")
        write_whole(path, change(lines))
        unlock(descriptor)
        if content is not raw:
            return  # nobody appends to a packed log
        # A writer that knows no lock may be in the middle of a row, or have opened the old file
        # before it was replaced.
        ended = max(content.rfind(b"\n"), content.rfind(b"\r")) + 1
        done = len(content) if _is_record(content[ended:]) else ended
        for pause_s in (0, _STRAGGLERS_S):
            time.sleep(pause_s)
            late = _read(descriptor, done)
            late = late[: late.rfind(b"\n") + 1]
            done += len(late)
            _append_bytes(path, late)


def check_replaceable(path: Path) -> None:
    """Raises a RecordError where a device or a pipe would be replaced by a file."""
    if _is_special(path):
        raise RecordError(f"cannot replace {path}: it is a device or a pipe and no file")


def _is_special(path: Path) -> bool:
    return path.exists() and not (path.is_file() or path.is_dir())


def write_whole(path: Path, text: str) -> None:
    """Write a log so that either all of it is there, or what was there before.

    A device or a pipe (``/dev/stdout``) stays what it is, and is written to. A file whose name
    ends in ``.gz`` is packed.

    Raises:
        RecordError: it cannot be written.
    """
    with _report_errors(path):
        publish(path, packed_for(path, text.encode()))


@contextmanager
def _report_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordError(
            f"cannot write the log {path}: {error.strerror}; it is unchanged"
        ) from error


def _read(descriptor: int, start: int) -> bytes:
    parts = []
    while part := os.pread(descriptor, 1 << 24, start):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _is_record(line: bytes) -> bool:
    try:
        return decode(line.decode("utf-8", "replace")) is not None
    except RecordError:
        return False


def _append_bytes(path: Path, data: bytes) -> None:
    if data:
        with path.open("ab", buffering=0) as file:
            file.write(data)
