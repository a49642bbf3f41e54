"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, content: bytes, missing_ok: bool = False) -> None:
    """Write ``content`` to ``path`` so that no reader ever sees half of it.

    Args:
        path: where to; its folder is made if it is missing.
        content: all of the file.
        missing_ok: whether the file may as well stay unwritten (a cache on a full or read-only
            disk) instead of raising `OSError`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, content)
    except OSError:
        if not missing_ok:
            raise


def _write(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
