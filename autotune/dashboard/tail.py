"""Follows a file that others append to, replace, truncate or remove."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from autotune.record.packed import CUT, MAGIC, PIECE, Unpacker

# Bytes read at a time, the longest line that is kept, and what is compared to know a file again.
CHUNK, LONGEST_LINE, MARK = 1 << 17, 1 << 24, 64


@dataclass(frozen=True)
class News:
    """The lines that were added since the last call.

    Attributes:
        lines: whole lines without their newlines; the last may lack its own in the file.
        restarted: whether the file is another one than before, or was cut: all earlier lines are
            void, and these are its first.
        more: whether there is more to read at once.
    """

    lines: tuple[str, ...] = ()
    restarted: bool = False
    more: bool = False


class Tail:
    """Reads a file from its beginning, and continues where it stopped.

    A line without its newline is held back until the newline comes: a writer may be in the middle
    of it. A file that was replaced (`autotune log compact`, logrotate) or became shorter is read
    anew. A missing one is waited for. One that gzip packed is unpacked.

    Args:
        path: the file.

    Attributes:
        size: bytes of the file at the last look.
        read: bytes of it that were taken.
        state: ``"following"``, ``"missing"``, or what the system says where it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = self.read = 0
        self.state = "missing"
        self._known: tuple[int, int] | None = None
        self._mark = b""
        self._held = bytearray()
        self._taken = False
        self._unpacker: Unpacker | None = None
        # What was unpacked and not given yet, which may be much.
        self._ready = memoryview(b"")
        # What is wrong with the packed data; and time and size of the file when it was looked at.
        self._damage = ""
        self._version = 0, 0

    def news(self) -> News:
        """Return the lines that are new, limited to a moment's work; never raises OSError."""
        try:
            # A pipe would be waited for, and is no log.
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            self.state = "missing"
            return News()
        except OSError as error:
            self.state = error.strerror or "cannot be read"
            return News()
        try:
            return self._news(descriptor)
        except OSError as error:
            self.state = error.strerror or "cannot be read"
            return News()
        finally:
            os.close(descriptor)

    @property
    def fragment(self) -> str:
        """The line at the end that has no newline yet."""
        return self._held.decode("utf-8", "replace")

    def take_fragment(self) -> None:
        """Take the line at the end for whole; its newline, when it comes, ends no other one."""
        self._held, self._taken = bytearray(), True

    def rewind(self) -> None:
        """Begin anew."""
        self.read, self._held, self._mark, self._taken = 0, bytearray(), b"", False
        self._ready, self._damage = memoryview(b""), ""

    def _news(self, descriptor: int) -> News:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            self.state = "no file"
            return News()
        self.state = "following"
        known = found.st_dev, found.st_ino
        version = found.st_mtime_ns, found.st_size
        restarted = self._known is not None and not self._same(descriptor, known, found.st_size)
        restarted |= bool(self._damage) and self._version != version
        if restarted:
            self.rewind()
        self._known, self.size, self._version, before = known, found.st_size, version, self.read
        data = self._next(descriptor)
        moved = bool(data) or self.read > before
        more = len(self._ready) > 0 or (moved and self.read < found.st_size)
        if not data:
            return News(restarted=restarted, more=more)
        self._held += data
        lines: list[bytes] = []
        if b"\n" in data:
            *lines, rest = bytes(self._held).split(b"\n")
            self._held = bytearray(rest)
        if len(self._held) > LONGEST_LINE:
            del self._held[MARK:]
        if self._taken and lines:
            del lines[0]
            self._taken = False
        texts = tuple(line.decode("utf-8", "replace") for line in lines)
        return News(texts, restarted, more)

    def _next(self, descriptor: int) -> bytes:
        """Return what follows, unpacked; it may be nothing though there is more."""
        if not self._ready:
            self._ready = memoryview(self._unpacked(descriptor))
        text, self._ready = self._ready[:CHUNK], self._ready[CHUNK:]
        return bytes(text)

    def _unpacked(self, descriptor: int) -> bytes:
        if self._damage:
            self.state = self._damage
            return b""
        data = os.pread(descriptor, CHUNK, self.read)
        if not self.read:
            if data == MAGIC[:1]:  # of more that is still being written
                return b""
            self._unpacker = Unpacker() if data.startswith(MAGIC) else None
        if self._unpacker is None:
            text = data
        else:
            data = data[:PIECE]
            try:
                text = self._unpacker.unpack(data)
            except OSError as error:
                self.state = self._damage = str(error.strerror)
                return b""
            if not data and self._unpacker.is_inside:
                self.state = CUT
        self.read += len(data)
        self._mark = (self._mark + data)[-MARK:]
        return text

    def _same(self, descriptor: int, known: tuple[int, int], size: int) -> bool:
        """Return whether what was read is still there."""
        if known != self._known or size < self.read:
            return False
        mark = self._mark
        return os.pread(descriptor, len(mark), self.read - len(mark)) == mark
