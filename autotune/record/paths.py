"""Paths of logs."""

from __future__ import annotations

import os
from pathlib import Path

from autotune.errors import RecordError

LogPath = str | os.PathLike[str] | os.PathLike[bytes]


def log_path(path: LogPath) -> Path:
    """Return the path of a log, whatever kind of path it is.

    Raises:
        RecordError: it is no path.
    """
    try:
        return Path(os.fsdecode(path))
    except TypeError as error:
        raise RecordError(f"expected the path of a log, got {path!r}") from error
