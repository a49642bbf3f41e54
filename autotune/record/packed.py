"""Logs that gzip packed: known by their first bytes, and unpacked while they are read."""

from __future__ import annotations

import errno
import io
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from autotune.errors import RecordError

# What gzip data begin with, and what names of packed files end in.
MAGIC, SUFFIX = b"\x1f\x8b", ".gz"
# Packed bytes that are unpacked at a time. They may become a thousand times as many.
PIECE = 1 << 14
# To zlib: the data have the head and the end of gzip.
_GZIP_FORM = 31
# What is said of them where they are cut short.
CUT = "its gzip data end early, as after an interrupted copy; `zcat` still shows what is whole"


class Unpacker:
    """Unpacks gzip data that come piece by piece; several files may follow each other in them."""

    def __init__(self) -> None:
        self._data = zlib.decompressobj(_GZIP_FORM)
        self._begun = False

    @property
    def is_inside(self) -> bool:
        """Whether more data must come, as the last ones are not at an end."""
        return self._begun

    def unpack(self, packed: bytes) -> bytes:
        """Return what a piece becomes.

        Raises:
            OSError: this is not gzip data.
        """
        parts = []
        while packed := packed if self._begun else packed.lstrip(b"\0"):  # as gzip pads
            self._begun = True
            try:
                parts.append(self._data.decompress(packed))
            except zlib.error as error:
                raise OSError(errno.EIO, f"its gzip data are damaged: {error}") from error
            packed = self._data.unused_data
            if self._data.eof:
                self._data, self._begun = zlib.decompressobj(_GZIP_FORM), False
        return b"".join(parts)


class MaybePacked(io.RawIOBase):
    """The bytes of a file, unpacked if they are gzip's. Nothing is read before it is asked for.

    Args:
        file: the file, closed with this one.
        name: of the file, in messages.
    """

    def __init__(self, file: io.RawIOBase, name: object) -> None:
        self._file = file
        self.name = name
        self._unpacker: Unpacker | None = None
        self._begun = False
        # What was unpacked and not yet asked for; a view, as it may be much longer than a request.
        self._ready = memoryview(b"")

    @property
    def is_packed(self) -> bool:
        """Whether gzip packed what was read so far."""
        return self._unpacker is not None

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the file."""
        return self._file.fileno()

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Read bytes to a buffer; return how many, 0 at the end.

        Raises:
            OSError: the file cannot be read, or its gzip data are damaged or cut short.
        """
        if not self._begun:
            self._begin()
        while not self._ready and self._unpacker is not None:
            piece = self._file.read(PIECE)
            if not piece:
                if self._unpacker.is_inside:
                    raise OSError(errno.EIO, CUT)
                return 0
            self._ready = memoryview(self._unpacker.unpack(piece))
        if not self._ready:
            return self._file.readinto(buffer) or 0
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def _begin(self) -> None:
        self._begun = True
        first = self._file.read(PIECE) or b""
        if len(first) == 1:  # all that a pipe had
            first += self._file.read(PIECE) or b""
        if first.startswith(MAGIC):
            self._unpacker = Unpacker()
            first = self._unpacker.unpack(first)
        self._ready = memoryview(first)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def unpacked(content: bytes) -> bytes:
    """Return the content of a log, unpacked if gzip packed it.

    Raises:
        OSError: its gzip data are damaged or cut short.
    """
    if not content.startswith(MAGIC):
        return content
    unpacker = Unpacker()
    text = unpacker.unpack(content)
    if unpacker.is_inside:
        raise OSError(errno.EIO, CUT)
    return text


def packed_for(path: Path, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of a file as its name has it: packed if it ends in ``.gz``."""
    if path.suffix != SUFFIX:
        yield from pieces
        return
    packer = zlib.compressobj(wbits=_GZIP_FORM)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def refuse_to_append(path: Path) -> None:
    """Refuse to append to a packed log, or to begin one.

    A writer that is killed would leave data there that end early, and all that follows them lost.

    Raises:
        RecordError: the file is packed, or its name says so.
    """
    if path.suffix == SUFFIX or is_packed(path):
        plain = path.with_suffix("") if path.suffix == SUFFIX else path
        raise RecordError(
            f"cannot append to the log {path}: packed logs are read, and written as a whole, but "
            f"do not grow; log to {plain}, after `gunzip` if it is there"
        )


def is_packed(path: Path) -> bool:
    """Return whether there is a packed file at a path, without opening a pipe."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False
