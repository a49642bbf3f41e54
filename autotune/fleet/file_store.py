"""Files named by the hash of their contents: sent to a worker once, and checked on arrival."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotune.errors import FleetError
from autotune.measure.process.scratch import Scratch

# Hexadecimal digits of a hash.
DIGITS = 64
# The most that one message holds of a file.
CHUNK_BYTES = 4 << 20
# The number of files whose hashes a client remembers.
_MOST_KNOWN = 4096
# A worker's files may take one part in so many of the memory, as /tmp is in memory on many hosts.
_MEMORY_PART = 8
# A transfer is given up when no part of it has arrived for so long.
_LATE_S = 600.0


def content_digest(data: bytes) -> str:
    """Return the hash that names a file with these contents."""
    return hashlib.sha256(data).hexdigest()


def chunks_of(path: str) -> Iterator[tuple[int, int, bytes]]:
    """Yield the parts of a file: the offset of each, the size of the whole file, and the bytes."""
    with open(path, "rb") as file:
        total = os.fstat(file.fileno()).st_size
        start = 0
        while True:
            data = file.read(CHUNK_BYTES)
            if data or not start:
                yield start, total, data
            start += len(data)
            if start >= total or not data:
                return


class Digests:
    """The hashes of a client's files, each computed once. Safe to use from several threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, int, int], str] = OrderedDict()
        self._lock = threading.Lock()

    def name(self, path: str) -> str:
        """Return the name that a file has in messages: the hash of its contents, and its suffix.

        Raises:
            FleetError: the file cannot be read.
        """
        return self.of(path) + os.path.splitext(path)[1]

    def of(self, path: str) -> str:
        """Return the hash of a file.

        Raises:
            FleetError: the file cannot be read.
        """
        try:
            status = os.stat(path)
            key = path, status.st_size, status.st_mtime_ns
            with self._lock:
                if key in self._known:
                    return self._known[key]
            with open(path, "rb") as file:
                found = hashlib.sha256()
                while data := file.read(CHUNK_BYTES):
                    found.update(data)
        except OSError as error:
            raise FleetError(f"{path} cannot be read, to be sent to a worker: {error}") from error
        with self._lock:
            self._known[key] = found.hexdigest()
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return found.hexdigest()


@dataclass
class _Arriving:
    """A file that has not arrived completely.

    Attributes:
        path: where its parts are written.
        size: bytes that have arrived.
        last_s: when the last part arrived.
        hash: of the bytes that have arrived.
    """

    path: Path
    size: int = 0
    last_s: float = field(default_factory=time.monotonic)
    hash: Any = field(default_factory=hashlib.sha256)


class FileStore:
    """The files that a worker was sent, in a folder that is removed with the worker.

    When they take too much space, the least recently used are removed; when the disk is full, all
    that no job holds. Clients are asked to send them again. Safe to use from several threads.

    Args:
        most_bytes: the most space that the files may take; by default an eighth of the memory.
    """

    def __init__(self, most_bytes: int | None = None) -> None:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._most_bytes = memory // _MEMORY_PART if most_bytes is None else most_bytes
        self._scratch = Scratch("fleet")
        self._lock = threading.Lock()
        self._files: OrderedDict[str, tuple[Path, int]] = OrderedDict()
        self._taken = 0
        self._arriving: dict[str, _Arriving] = {}
        self._held: Counter[str] = Counter()

    def hold(self, names: Iterable[str]) -> None:
        """Keep these files until `release` is called with the same names."""
        with self._lock:
            self._held.update(names)

    def release(self, names: Iterable[str]) -> None:
        """Allow files to be removed that `hold` kept."""
        with self._lock:
            for name in names:
                self._held[name] -= 1
                if self._held[name] <= 0:
                    del self._held[name]

    def path(self, name: str) -> str | None:
        """Return the path of a file, or None if it is not stored."""
        with self._lock:
            if name not in self._files:
                return None
            self._files.move_to_end(name)
            return str(self._files[name][0])

    def place(self, name: str) -> Path:
        """Return the path at which a new file is written."""
        return self._scratch.path / name

    def add(self, name: str, data: bytes) -> None:
        """Store a complete file.

        Raises:
            FleetError: the contents do not have the hash in the name.
            OSError: there is no space left.
        """
        if self.path(name) is not None:
            return
        if content_digest(data) != name[:DIGITS]:
            raise _damaged(name)
        made = self.place(f"{threading.get_ident()}-{name}")
        with self.written(made):
            made.write_bytes(data)
        self._keep(name, made, len(data))

    def adopt(self, name: str, made: Path) -> None:
        """Store a file that this worker has written, by moving it.

        Raises:
            FleetError: the contents do not have the hash in the name; the file is removed.
        """
        if Digests().of(str(made)) != name[:DIGITS]:
            made.unlink()
            raise _damaged(name)
        self._keep(name, made, made.stat().st_size)

    def add_chunk(self, transfer: str, name: str, start: int, total: int, data: bytes) -> None:
        """Store a part of a file; the parts of one transfer arrive in order.

        Raises:
            FleetError: a part is missing, or the complete file does not have the hash in its name.
            OSError: there is no space left.
        """
        self._give_up_late()
        with self._lock:
            # Entered again below, once this part is written.
            arriving = self._arriving.pop(transfer, None)
            if start == 0:
                arriving = _Arriving(self.place(f"{transfer}-{name}"))
        if arriving is None or arriving.size != start:
            if arriving is not None:
                arriving.path.unlink(missing_ok=True)
            raise FleetError(f"a part of file {name[:16]} is missing: send it again")
        with self.written(arriving.path):
            with open(arriving.path, "ab" if start else "wb") as file:
                file.write(data)
            arriving.hash.update(data)
            arriving.size += len(data)
            if arriving.size >= total and arriving.hash.hexdigest() != name[:DIGITS]:
                raise _damaged(name)
        if arriving.size >= total:
            self._keep(name, arriving.path, arriving.size)
            return
        arriving.last_s = time.monotonic()
        with self._lock:
            self._arriving[transfer] = arriving

    @contextmanager
    def written(self, made: Path) -> Iterator[None]:
        """Remove a file if writing it fails, and free space if the disk is full."""
        try:
            yield
        except BaseException as error:
            with suppress(OSError):
                made.unlink()
            if isinstance(error, OSError):
                with self._lock:
                    self._free(0, "")
            raise

    def _give_up_late(self) -> None:
        """Remove incomplete files whose clients have stopped sending, as killed ones do."""
        now = time.monotonic()
        with self._lock:
            late = [t for t, one in self._arriving.items() if now - one.last_s > _LATE_S]
            given_up = [self._arriving.pop(transfer) for transfer in late]
        for one in given_up:
            one.path.unlink(missing_ok=True)

    def _keep(self, name: str, made: Path, size: int) -> None:
        with self._lock:
            made.rename(self.place(name))
            _, before = self._files.pop(name, (made, 0))
            self._files[name] = self.place(name), size
            self._taken += size - before
            self._free(self._most_bytes, name)

    def _free(self, most_bytes: int, but: str) -> None:
        """Remove files that are not held, the oldest first, until the rest fits in `most_bytes`.

        Args:
            most_bytes: the space that remaining files may take.
            but: the name of a file that is kept.
        """
        gone, left = [], self._taken
        for name, (_, size) in self._files.items():
            if left <= most_bytes:
                break
            if name != but and name not in self._held:
                gone.append(name)
                left -= size
        self._taken = left
        for name in gone:
            with suppress(OSError):
                self._files.pop(name)[0].unlink()

    @property
    def bytes(self) -> int:
        """The total size of the files, including incomplete ones."""
        with self._lock:
            return self._taken + sum(one.size for one in self._arriving.values())

    def close(self) -> None:
        """Remove all files."""
        with self._lock:
            self._files.clear()
            self._arriving.clear()
            self._taken = 0
        self._scratch.remove()


def _damaged(name: str) -> FleetError:
    return FleetError(f"a file arrived damaged: it is not {name[:16]}")
