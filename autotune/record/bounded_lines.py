"""Opens a log whose path is not trusted: does not block, and bounds the length of lines."""

from __future__ import annotations

import io
import os
from pathlib import Path

from autotune.errors import RecordError
from autotune.record.packed import MaybePacked

# Letters of the longest line that is read whole, of what is kept of a longer one, and after which
# a line is taken to have no end.
LONGEST_LINE, _KEPT, _ENDLESS = 1 << 24, 64, 1 << 28
# Bytes that are read at a time.
_AT_ONCE = 1 << 16


class BoundedLines(io.TextIOWrapper):
    """A text file whose lines take bounded memory: of a longer line the beginning counts."""

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """Return the next line, or at most this many characters of it.

        Raises:
            RecordError: the line does not end, as when reading a device; or reading failed.
        """
        try:
            return super().readline(size) if size >= 0 else self._line()
        except OSError as error:
            raise RecordError(f"cannot read the log {self.name}: {error.strerror}") from error

    def _line(self) -> str:
        line = super().readline(LONGEST_LINE)
        if len(line) < LONGEST_LINE or line.endswith("\n"):
            return line
        return line[:_KEPT] + self._end_of_line()

    def _end_of_line(self) -> str:
        """Pass over the rest of a line; returns its newline, or nothing at the end of the file."""
        passed = 0
        while passed < _ENDLESS:
            part = super().readline(LONGEST_LINE)
            if not part or part.endswith("\n"):
                return part[-1:]
            passed += len(part)
        raise RecordError(
            f"cannot read the log {self.name}: a line of it has no end; is it a log?"
        )


def open_bounded(path: Path | str) -> BoundedLines:
    """Open a text file, packed by gzip or not; bytes that are not UTF-8 are replaced.

    A pipe with a writer is read to its end; one without a writer counts as empty.

    Raises:
        OSError: the file cannot be opened.
        ValueError: no file can have this name.
    """
    file = MaybePacked(io.FileIO(path, opener=_open), path)
    return BoundedLines(io.BufferedReader(file, _AT_ONCE), encoding="utf-8", errors="replace")


def _open(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor
