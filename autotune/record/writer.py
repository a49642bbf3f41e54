"""Appends to logs: whole lines, from any number of processes, without losing one."""

from __future__ import annotations

import errno
import itertools
import os
import shlex
import tempfile
import threading
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path

from autotune.errors import RecordError
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.record.codec import encode
from autotune.record.locking import locked, locked_pipe
from autotune.record.packed import refuse_to_append
from autotune.record.paths import LogPath, lasting_path, log_path
from autotune.utils.files import write_atomically
from autotune.utils.quantities import counted


class LogWriter:
    """Appends records to a log.

    Each call is one write in append mode, which is atomic on a local disk, so many processes may
    share a log; a lock prevents them from writing while `compact` replaces the file. If the file
    ends in the middle of a line, because a writer was killed, a newline is written first.

    If the disk is full, the rows are saved to a rescue file, which a `RecordError` names; the next
    call tries to write them again.

    A pipe is open from the first row on until there is no writer: who reads it takes it to end
    when it is closed, and the next row would wait for another reader.

    Args:
        path: the log, which is created with its folders if missing. A relative one begins at the
            folder that is current now.
        fsync: whether to wait until each row is on the disk, so that it survives a power failure.

    Raises:
        RecordError: the path is a folder, or of a log that gzip packed.
    """

    def __init__(self, path: LogPath, fsync: bool = False) -> None:
        self.path = log_path(path)
        self._file = lasting_path(self.path)
        self._fsync = fsync
        self._pending: list[str] = []
        self._pipe: int | None = None
        self._rescue: Path | None = None
        self._lock = threading.Lock()
        if self._file.is_dir():
            raise RecordError(f"cannot log to {self.path}: it is a folder; give a file in it")
        refuse_to_append(self.path)

    def check(self) -> None:
        """Check that the log can be written, before anything is measured for it.

        Raises:
            RecordError: it, or the folder in which it would be made, is not writable, or what
                should be a folder is a file.
        """
        places = (self._file, *self._file.parents)
        there = next((place for place in places if place.exists()), self._file)
        why = "" if os.access(there, os.W_OK) else "is not writable"
        if there != self._file and not there.is_dir():
            why = "is no folder"
        if why:
            raise RecordError(
                f"cannot write the log {self.path}: {there} {why}; choose another path"
            )

    def append(self, inp: MeasureInput, result: MeasureResult) -> None:
        """Append one trial; see `extend`."""
        self.extend([(inp, result)])

    def extend(self, pairs: Iterable[tuple[MeasureInput, MeasureResult]]) -> None:
        """Append trials in one write.

        Raises:
            RecordError: the log cannot be written; nothing is lost, the message says where to
                find the rows.
        """
        self.write([encode(inp, result) + "\n" for inp, result in pairs])

    def write(self, rows: Sequence[str]) -> None:
        """Append whole lines in one write; see `extend`."""
        with self._lock:
            self._pending += rows
            if not self._pending:
                return
            try:
                whole = _append(self._file, self._pending, self._fsync, self._open_pipe())
            except BrokenPipeError:
                raise  # who reads has enough, as `head` has
            except OSError as error:
                raise self._rescued(error) from error
            self._pending = self._pending[whole:]
            if self._pending:
                raise self._rescued(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
            self._discard_rescue()

    def _open_pipe(self) -> int | None:
        """Return the log if it is a pipe; None otherwise."""
        if self._pipe is None and self._file.is_fifo():
            # If it were open for reading here too, it would never end where who reads has gone.
            self._pipe = os.open(self._file, os.O_WRONLY)
            weakref.finalize(self, os.close, self._pipe)
        return self._pipe

    def _rescued(self, cause: OSError) -> RecordError:
        """Save the rows that are not in the log, and return the error to raise."""
        problem = f"cannot append to the log {self.path}: {cause.strerror}."
        try:
            if self._rescue is None:
                # A name that no other writer has, not even another one of this log.
                prefix = f"autotune-rescue-{self.path.name}-"
                descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=".log")
                os.close(descriptor)
                self._rescue = Path(name)
            # The log may end in a fragment, to which `cat` would glue the first row.
            write_atomically(self._rescue, ("\n" + "".join(self._pending)).encode())
        except OSError:
            text = "".join(self._pending)
            return RecordError(f"{problem} Copy these rows by hand, they are kept here:\n{text}")
        kept = counted(len(self._pending), "row")
        return RecordError(
            f"{problem} {kept} kept in {self._rescue}: {_cure(cause)}, "
            f"then `{shlex.join(['cat', str(self._rescue)])} >> {shlex.quote(str(self._file))}`"
        )

    def _discard_rescue(self) -> None:
        """Remove the rescue file once its rows are in the log."""
        if self._rescue is not None:
            self._rescue.unlink(missing_ok=True)
            self._rescue = None


def _cure(cause: OSError) -> str:
    full = cause.errno in (errno.ENOSPC, errno.EDQUOT)
    return "make room" if full else "make the log's folder writable or choose another path"


def _append(path: Path, rows: Sequence[str], fsync: bool, pipe: int | None) -> int:
    """Append rows in one write; return how many of them are in the file now.

    These are less than all where the disk filled up in the middle of the write; a fragment of the
    next one may then end the file. It is not cut off, because another process may have appended
    behind it; the next row starts on a new line.
    """
    encoded = [row.encode() for row in rows]
    with locked(path) if pipe is None else locked_pipe(pipe) as descriptor:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        written = _write(descriptor, b"\n" * torn + b"".join(encoded), pipe is not None) - torn
        if fsync and pipe is None:
            os.fsync(descriptor)
    # A row that lacks nothing but its newline is whole: the next one brings it.
    ends = itertools.accumulate(len(row) for row in encoded)
    return sum(end - 1 <= written for end in ends)


def _write(descriptor: int, data: bytes, is_pipe: bool) -> int:
    """Write once, as appenders take turns; a pipe takes all, unless who reads has gone."""
    written = os.write(descriptor, data)
    while is_pipe and written < len(data):
        written += os.write(descriptor, data[written:])
    return written
