"""A temporary folder that is removed when its owner is done, even while others write to it."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

from autotune.errors import MeasureError
from autotune.utils.scratch import make_held, sweep

# A process that was just killed may finish a write.
_REMOVE_S = 2.0
_RETRY_S = 0.02
# A disk with less free space than this is full, as far as a compiler is concerned.
_ROOM_BYTES = 16 << 20
_BLOCK = bytes(1 << 20)


class Scratch:
    """A folder made on first use.

    Its owner holds a lock on it, which the system releases however the owner ends. To make a
    folder also removes those beside it that are not locked, so a killed run leaves nothing for
    long.

    Args:
        purpose: part of its name.
        parent: where; by default where the system keeps such folders.
    """

    def __init__(self, purpose: str, parent: str | None = None) -> None:
        self._purpose = purpose
        self._parent = parent
        self._path: Path | None = None
        self._held: int | None = None
        self._over = False
        self._owner: int | None = None  # process that made the folder
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """The folder.

        Raises:
            MeasureError: it cannot be made, or `end` was called.
        """
        with self._lock:
            if self._over:
                raise MeasureError(f"temporary files of {self._purpose!r}: their owner was ended")
            if self._path is None:
                self._path, self._owner = self._make(), os.getpid()
            return self._path

    def folder(self, name: str) -> Path:
        """Return a folder in it, made if it is missing.

        Raises:
            MeasureError: it cannot be made.
        """
        inner = self.path / name
        try:
            inner.mkdir(exist_ok=True)
        except OSError as error:
            raise _no_room(str(inner.parent), error) from error
        return inner

    def lacks_room(self) -> MeasureError | None:
        """Write a file as large as some compilations need, and remove it; say what is wrong."""
        try:
            with tempfile.TemporaryFile(dir=self.path) as file:
                for _ in range(_ROOM_BYTES // len(_BLOCK)):
                    file.write(_BLOCK)
        except OSError as error:
            return _no_room(str(self.path), error)
        return None

    def _make(self) -> Path:
        try:
            path, self._held = make_held(self._purpose, self._parent)
            sweep(path.parent)
            return path
        except OSError as error:
            raise _no_room(self._parent or tempfile.gettempdir(), error) from error

    def remove(self) -> None:
        """Remove the folder with all in it; the next use makes another."""
        with self._lock:
            path, self._path = self._path, None
            held, self._held = self._held, None
        self._give_up(path, held)

    def end(self) -> None:
        """Remove the folder for good: there will be no other.

        A thread that outlasts this may still write to it; the next call removes that.
        """
        with self._lock:
            self._over = True
            path, held, self._held = self._path, self._held, None
        self._give_up(path, held)

    def _give_up(self, path: Path | None, held: int | None) -> None:
        """Remove a folder, unless it is that of the process from which this one was forked."""
        if self._owner == os.getpid():
            _remove(path, held)


def _remove(path: Path | None, held: int | None) -> None:
    """Give a folder up that was held, and remove it with all in it."""
    if held is not None:
        os.close(held)
    deadline = time.monotonic() + _REMOVE_S
    while path is not None and path.exists():
        shutil.rmtree(path, ignore_errors=True)
        if time.monotonic() > deadline:
            return
        if path.exists():
            time.sleep(_RETRY_S)


def _no_room(where: str, error: OSError) -> MeasureError:
    return MeasureError(
        f"temporary files cannot be written in {where}: {error.strerror or error}; free space "
        "there or set TMPDIR, and go on: trials that were under way are not in the log"
    )
