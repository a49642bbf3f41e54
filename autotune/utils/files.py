"""Files written whole or not at all, and read only when they are our own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from autotune.utils.environment import private


def write_atomically(path: Path, content: bytes, missing_ok: bool = False) -> None:
    """Write ``content`` to ``path`` so that no reader ever sees half of it.

    Links are followed; what is no regular file (``/dev/stdout``, a pipe) is written as it is.

    Args:
        path: where to; folders on the way that are missing are made, for this user alone.
        content: all of the file.
        missing_ok: whether the file may as well stay unwritten (a cache on a full or read-only
            disk) instead of raising `OSError`.
    """
    try:
        _make(path.parent)
        _write(path, content)
    except OSError:
        if not missing_ok:
            raise


def _make(folder: Path) -> None:
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def read_own(path: Path) -> bytes:
    """Return what is in a file that nobody but this user can have written.

    Raises:
        OSError: it cannot be read, or belongs to somebody else, or is open to others.
    """
    with path.open("rb") as file:
        if not private(os.fstat(file.fileno())):
            raise PermissionError(f"{path}: others may have written it")
        return file.read()


def _write(path: Path, content: bytes) -> None:
    path = path.resolve()  # a link stays, and leads to what is new
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a device or a pipe must stay what it is
        return
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
