"""A temporary folder that goes when its owner is done with it, whoever still writes to it."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from pathlib import Path

from autotune.errors import MeasureError

# A process that was just killed may finish a write.
_REMOVE_S = 2.0
_RETRY_S = 0.02


class Scratch:
    """A folder made on first use.

    Args:
        purpose: part of its name.
        parent: where; by default where the system keeps such folders.
    """

    def __init__(self, purpose: str, parent: str | None = None) -> None:
        self._purpose = purpose
        self._parent = parent
        self._path: Path | None = None
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """The folder.

        Raises:
            MeasureError: it cannot be made.
        """
        with self._lock:
            if self._path is None:
                self._path = self._made()
            return self._path

    def _made(self) -> Path:
        try:
            return Path(tempfile.mkdtemp(prefix=f"autotune-{self._purpose}-", dir=self._parent))
        except OSError as error:
            where = self._parent or tempfile.gettempdir()
            raise MeasureError(
                f"cannot make a temporary folder in {where}: {error}; free space there or set "
                "TMPDIR"
            ) from error

    def remove(self) -> None:
        """Remove the folder with all in it; the next use makes another."""
        with self._lock:
            path, self._path = self._path, None
        deadline = time.monotonic() + _REMOVE_S
        while path is not None and path.exists():
            shutil.rmtree(path, ignore_errors=True)
            if time.monotonic() > deadline:
                return
            if path.exists():
                time.sleep(_RETRY_S)
