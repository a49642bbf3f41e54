"""Temporary folders that do not outlast their process for long, however it ends.

Who makes a folder holds a lock on it, which the system releases with the process. The first folder
that a process makes removes those beside it that are not locked: what killed processes left.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from autotune.utils.files import remove_own

if sys.platform != "win32":
    import fcntl

_PREFIX = "autotune-scratch-"
# A younger folder may be one that its owner is about to lock.
_YOUNG_S = 60.0

_lock = threading.Lock()
_swept: set[tuple[int, Path]] = set()
_kept: dict[int, str] = {}


def make_held(purpose: str, parent: str | None = None) -> tuple[Path, int | None]:
    """Make a folder; return it and the descriptor that holds it.

    Args:
        purpose: part of its name.
        parent: where; by default where the system keeps temporary files.

    Raises:
        OSError: it cannot be made.
    """
    path = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{purpose}-", dir=parent))
    try:
        return path, _locked(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
        raise


def sweep(parent: Path) -> None:
    """Remove what killed processes left in a folder."""
    for folder in parent.glob(f"{_PREFIX}*"):
        # Others may sweep at the same time, or own what is there.
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime < _YOUNG_S:
                continue
            held = _locked(folder)
            if held is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(held)


@contextlib.contextmanager
def temporary_folder(purpose: str) -> Iterator[str]:
    """Make a folder that is removed at the end of the block.

    Args:
        purpose: part of its name.

    Raises:
        OSError: it cannot be made.
    """
    path, held = make_held(purpose)
    process = os.getpid()
    try:
        _sweep_once(path.parent)
        yield str(path)
    finally:
        remove_own(str(path), process)
        if held is not None:
            os.close(held)


def kept_folder(purpose: str) -> str:
    """Make a folder that the caller removes; if it does not, the end of this process does.

    All of them lie in one that is held, so that many cost no descriptors.

    Raises:
        OSError: it cannot be made.
    """
    with _lock:
        process = os.getpid()
        parent = _kept.get(process)
        if parent is None or not os.path.isdir(parent):
            path, _ = make_held("kept")  # held as long as the process lives
            parent = _kept[process] = str(path)
            atexit.register(remove_own, parent, process)
        _sweep_once(Path(parent).parent)
        return tempfile.mkdtemp(prefix=f"{purpose}-", dir=parent)


def _sweep_once(parent: Path) -> None:
    key = os.getpid(), parent
    if key not in _swept:
        _swept.add(key)
        sweep(parent)


def _locked(folder: Path) -> int | None:
    """Return a descriptor that holds the folder; None when another process holds it."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
