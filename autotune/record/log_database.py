"""Databases that are logs: one file, or a folder of files of which each writer has its own."""

from __future__ import annotations

import functools
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from autotune.errors import RecordError
from autotune.record.bounded_lines import open_bounded
from autotune.record.database import Database, key_of
from autotune.record.packed import SUFFIX, unpacked
from autotune.record.paths import LogPath, lasting_path, log_path
from autotune.record.rewriting import rewrite
from autotune.record.writer import LogWriter

# What files of records are called, packed ones with `SUFFIX` behind it; others of a folder are
# left alone.
SUFFIXES = (".log", ".json", ".jsonl", ".wkl")
# Bytes before the place to go on at that are compared to know a file again: several rows, of
# which the last ones are others after any change but one in place.
_MARK = 1 << 16


@dataclass(frozen=True)
class _Seen:
    """The part of a file that was read.

    Attributes:
        file: its device and number, which the system gives again to later files.
        size: bytes of it that were there.
        mtime_ns: its time of change before it was read.
        done: bytes of whole lines, where reading continues.
        mark: what comes before that.
    """

    file: tuple[int, int] = (0, 0)
    size: int = 0
    mtime_ns: int = 0
    done: int = 0
    mark: bytes = b""

    def still_in(self, file: IO[bytes], status: os.stat_result) -> bool:
        """Return whether a file, of this state, is the one that was read, or that and more."""
        if (status.st_dev, status.st_ino) != self.file or status.st_size < self.size:
            return False
        if status.st_size == self.size and status.st_mtime_ns != self.mtime_ns:
            return False
        file.seek(self.done - len(self.mark))
        return file.read(len(self.mark)) == self.mark


class LogDatabase(Database):
    """A log file, which need not exist yet.

    Any number of processes on one machine may append; see `LogWriter`. `save` without ``extend``
    rewrites the file if the trial is stored already, which is slow for a large log. A log that
    gzip packed is read and rewritten, not appended to.

    Args:
        path: the log. A relative one begins at the folder that is current now.
    """

    def __init__(self, path: LogPath) -> None:
        self.path = log_path(path)
        self.url = str(self.path)
        self._file = lasting_path(self.path)
        self._lock = threading.Lock()
        # How far it was read, and the rows of each key in that part.
        self._seen = _Seen()
        self._by_key: dict[str, list[str]] = {}

    @functools.cached_property
    def _writer(self) -> LogWriter:
        return LogWriter(self._file)

    def lines(self) -> Iterator[str]:
        """Yield all lines in order; none if there is no file."""
        try:
            with open_bounded(self._file) as file:
                yield from file
        except FileNotFoundError:
            return
        except OSError as error:
            raise RecordError(f"cannot read the log {self.path}: {error.strerror}") from error

    def write(self, rows: Sequence[str]) -> None:
        """Append lines in one write."""
        self._writer.write([row.rstrip("\n") + "\n" for row in rows])

    def flush(self) -> None:
        """Empty the file."""
        if self._file.exists():
            rewrite(self._file, lambda lines: ())

    def state(self) -> object:
        """Return which file it is, its size and its time of change."""
        try:
            status = self._file.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    def holds(self, key: str) -> bool:
        """Return whether there is a row of a key."""
        return bool(self._get(key))

    def drop(self, key: str) -> None:
        """Take the rows of a key out."""
        rewrite(self._file, lambda lines: _without(key, lines))

    def _get(self, key: str) -> list[str]:
        with self._lock:
            self._catch_up()
            return list(self._by_key.get(key, ()))

    def _replace(self, key: str, row: str) -> None:
        if self._get(key):
            rewrite(self._file, lambda lines: [*_without(key, lines), f"{row}\n"])
        else:
            self.write([row])

    def _catch_up(self) -> None:
        """Read what was appended since the last time; all of it where the file is another."""
        try:
            with self._file.open("rb") as file:
                status = os.fstat(file.fileno())
                if not self._seen.still_in(file, status):
                    self._seen, self._by_key = _Seen(), {}
                seen = self._seen
                file.seek(seen.done)
                content = file.read()
            text = unpacked(content)
        except FileNotFoundError:
            self._seen, self._by_key = _Seen(), {}
            return
        except OSError as error:
            raise RecordError(f"cannot read the log {self.path}: {error.strerror}") from error
        whole = content
        if text is content:  # not packed: a writer may be in the middle of the last line
            text = whole = content[: content.rfind(b"\n") + 1]
        lines = text.decode("utf-8", "replace").split("\n")
        for line in lines if lines[-1] else lines[:-1]:
            row = line.removesuffix("\r")
            self._by_key.setdefault(key_of(row), []).append(row)
        self._seen = _Seen(
            file=(status.st_dev, status.st_ino),
            size=seen.done + len(content),
            mtime_ns=status.st_mtime_ns,
            done=seen.done + len(whole),
            mark=(seen.mark + whole)[-_MARK:],
        )


def _without(key: str, lines: Iterable[str]) -> Iterator[str]:
    return (line for line in lines if key_of(line) != key)


class FolderDatabase(Database):
    """A folder of logs. Each object that writes has a file of its own in it.

    So it may be on a network file system, which promises nothing to those who append to one
    file. All files whose names end in `SUFFIXES` are read, by name; those that are written here
    begin with the time of their making.

    Args:
        path: the folder; made when it is first written to. A relative one begins at the
            folder that is current now.

    Raises:
        RecordError: it is a file.
    """

    def __init__(self, path: LogPath) -> None:
        self.path = log_path(path)
        self.url = f"{self.path}/"
        self._folder = lasting_path(self.path)
        self._own: LogDatabase | None = None
        self._logs: dict[Path, LogDatabase] = {}
        self._lock = threading.Lock()
        if self.path.exists() and not self.path.is_dir():
            raise RecordError(f"{self.path} is a file, expected a folder of logs")

    def files(self) -> list[Path]:
        """Return the logs in it, in the order in which they are read."""
        return log_files(self._folder)

    def lines(self) -> Iterator[str]:
        """Yield the lines of all files."""
        for log in self._databases():
            for line in log.lines():
                yield line if line.endswith("\n") else f"{line}\n"

    def write(self, rows: Sequence[str]) -> None:
        """Append lines to this object's own file."""
        with self._lock:
            if self._own is None:
                self._own = LogDatabase(self._folder / _own_name())
        self._own.write(rows)

    def flush(self) -> None:
        """Empty all files."""
        for log in self._databases():
            log.flush()

    def state(self) -> object:
        """Return the state of all files."""
        return tuple((log.path, log.state()) for log in self._databases())

    def _databases(self) -> list[LogDatabase]:
        with self._lock:
            found = self.files()
            self._logs = {path: self._logs.get(path) or LogDatabase(path) for path in found}
            return list(self._logs.values())

    def _get(self, key: str) -> list[str]:
        return [row for log in self._databases() for row in log._get(key)]

    def _replace(self, key: str, row: str) -> None:
        # The new row first: a writer that is killed in between has lost nothing.
        old = [log for log in self._databases() if log.holds(key)]
        own = self._own
        for log in old:
            if own is None or log.path != own.path:
                continue
            log._replace(key, row)
            break
        else:
            self.write([row])
        for log in old:
            if self._own is None or log.path != self._own.path:
                log.drop(key)


def log_files(folder: Path) -> list[Path]:
    """Return the logs of a folder by name; empty if there is no folder.

    Raises:
        RecordError: the folder cannot be read.
    """
    try:
        found = [
            each
            for each in folder.iterdir()
            if Path(each.name.removesuffix(SUFFIX)).suffix in SUFFIXES
        ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"cannot read the folder {folder}: {error.strerror}") from error
    return sorted(each for each in found if not each.name.startswith(".") and each.is_file())


def _own_name() -> str:
    """Return the name of a new file, which no other process and no other object uses."""
    when = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    host = "".join(c for c in socket.gethostname() if c.isalnum() or c == "-")[:40]
    return f"{when}-{host}-{os.getpid()}-{secrets.token_hex(4)}.log"
