"""Replacing a log as a whole, while others may append to it."""

from __future__ import annotations

import io
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from autotune.errors import RecordError
from autotune.record.codec import decode
from autotune.record.locking import locked, unlock
from autotune.record.packed import MaybePacked, packed_for
from autotune.utils.files import publish

# How long a row may take that another program began to write before a log was replaced.
_STRAGGLERS_S = 0.05
# Bytes that are read at a time.
_AT_ONCE = 1 << 16


def rewrite(path: Path, change: Callable[[Iterable[str]], Iterable[str]]) -> None:
    """Replace a log by what ``change`` makes of its lines; what is appended meanwhile follows it.

    Neither the old lines nor the new ones are all in memory.

    Raises:
        RecordError: it cannot be written; it is unchanged then.
    """
    path = Path(os.path.realpath(path))
    check_replaceable(path)
    with _report_errors(path), locked(path) as descriptor:
        size = os.fstat(descriptor).st_size
        content = MaybePacked(_Beginning(descriptor, size), path)
        # Lines end where they do for who reads a log: at "\r" too.
        lines = io.TextIOWrapper(io.BufferedReader(content), "utf-8", "replace")
        write_whole(path, change(lines))
        unlock(descriptor)
        if content.is_packed:
            return  # nobody appends to a packed log
        # A writer that knows no lock may be in the middle of a row, or have opened the old file
        # before it was replaced.
        last = _last_line(descriptor, size)
        done = size if _is_record(last) else size - len(last)
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


def write_whole(path: Path, lines: Iterable[str]) -> None:
    """Write a log so that either all of it is there, or what was there before.

    A device or a pipe (``/dev/stdout``) stays what it is, and is written to. A file whose name
    ends in ``.gz`` is packed.

    Raises:
        RecordError: it cannot be written.
    """
    with _report_errors(path):
        publish(path, packed_for(path, (line.encode() for line in lines)))


@contextmanager
def spooled(path: Path) -> Iterator[BinaryIO]:
    """Give a file without a name beside one that is to be written, for what is not known yet.

    A device or a pipe has it where temporary files are.
    """
    folder = None if _is_special(path) else Path(os.path.realpath(path)).parent
    with tempfile.TemporaryFile(dir=folder) as file:
        yield file


@contextmanager
def _report_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # who reads has enough, as `head` has: nothing is wrong with what was asked for
    except OSError as error:
        raise RecordError(
            f"cannot write the log {path}: {error.strerror}; it is unchanged"
        ) from error


class _Beginning(io.RawIOBase):
    """The bytes that a file had when it was opened, whatever is appended to it."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor, self._size, self._at = descriptor, size, 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Read bytes to a buffer; return how many, 0 at the end."""
        most = min(len(buffer), self._size - self._at)
        part = os.pread(self._descriptor, most, self._at)
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def _last_line(descriptor: int, size: int) -> bytes:
    """Return what follows the last end of a line; nothing where the file ends in one."""
    span = 1 << 12
    while True:
        start = max(0, size - span)
        end = os.pread(descriptor, size - start, start)
        ended = max(end.rfind(b"\n"), end.rfind(b"\r")) + 1
        if ended or not start:
            return end[ended:]
        span *= 16


def _read(descriptor: int, start: int) -> bytes:
    parts = []
    while part := os.pread(descriptor, _AT_ONCE, start):
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
