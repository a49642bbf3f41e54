"""Loads shared libraries into this process."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from autotune.errors import DeviceError


def load_library(path: str, what: str) -> ctypes.CDLL:
    """Load a shared object.

    Args:
        path: of the file.
        what: it is, for an error.

    Raises:
        DeviceError: it cannot be loaded; the message says why, and if no code is loaded from its
            folder at all, what to do.
    """
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        # Where it lies differs from trial to trial: behind the line that failures share.
        why = _refusal(Path(path).parent) or str(error).removeprefix(f"{path}: ")
        raise DeviceError(f"{what}: cannot be loaded: {why}\n[file: {path}]") from error


def _refusal(folder: Path) -> str:
    """Return why no code is loaded from a folder; empty where it is."""
    if not folder.exists():
        return (
            "its folder is gone; a builder removes what it built when it is closed or no longer "
            "held: hold it while that is run"
        )
    try:
        flags = os.statvfs(folder).f_flag
    except OSError:
        return ""
    if not flags & getattr(os, "ST_NOEXEC", 0):
        return ""
    return (
        "the file system of the temporary files is mounted noexec; set TMPDIR to a folder from "
        "which programs may run"
    )
