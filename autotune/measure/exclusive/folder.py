"""The folder of locks that all programs of a host share, and the files in it.

The files are only locked: never read or written, and opened for reading only. So a file of another
user serves as well as one's own. The folder may belong to any user, as long as only the owner of a
file (or of the folder) can replace the file.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from autotune.utils import environment

_FOLDER = Path("/tmp/autotune-devices")
_SHARED, _FILE = 0o1777, 0o644
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# Between making a folder or file and opening it to others somebody may look.
_RETRY_S, _MOST_S = 0.01, 0.5


class NoLocks(OSError):
    """The folder, or a file in it, is not fit for locks; the message says why."""


def lock_folder() -> Path:
    """Return the folder of locks: what ``AUTOTUNE_DEVICE_LOCKS`` names, or one in ``/tmp``.

    A missing folder is created, writable by all users, each of whom may remove only own files.

    Raises:
        NoLocks: it cannot be created, or other users could replace files in it.
    """
    chosen = environment.device_locks()
    folder = chosen or _FOLDER
    deadline = time.monotonic() + _MOST_S
    while True:
        try:
            return _check(folder)
        except FileNotFoundError:
            _make(folder)
        except NoLocks:
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True)
        folder.chmod(_SHARED)
    except FileExistsError:
        pass
    except OSError as error:
        raise NoLocks(f"{folder} cannot be made: {error.strerror}") from error


def _check(folder: Path) -> Path:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise NoLocks(f"{folder} cannot be used: {error.strerror}") from error
    why = _unfit(found)
    if why:
        raise NoLocks(f"{folder} {why}")
    return folder


def _unfit(found: os.stat_result) -> str:
    """Return why a folder is not fit for locks; empty where it is."""
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    mode = f"mode {stat.S_IMODE(found.st_mode):o}"
    if found.st_mode & stat.S_IWOTH:
        sticky = found.st_mode & stat.S_ISVTX
        return "" if sticky else f"lets everybody remove what others made ({mode}, not sticky)"
    if found.st_uid not in (0, os.getuid()):
        return f"belongs to user {found.st_uid} and is not open to others ({mode})"
    return ""


def open_lock(folder: str, name: str) -> int:
    """Return a descriptor of a file in the folder, which is created if it is missing.

    Raises:
        NoLocks: it is not a regular file, or cannot be opened.
    """
    deadline = time.monotonic() + _MOST_S
    while True:
        try:
            return _plain(os.open(folder, _OPEN | os.O_DIRECTORY), name)
        except NoLocks:
            raise
        except OSError as error:
            if isinstance(error, FileNotFoundError):  # somebody tidied up
                _make(Path(folder))
            # Others may be making it this moment.
            passing = isinstance(error, (FileNotFoundError, FileExistsError, PermissionError))
            if not passing or time.monotonic() > deadline:
                raise NoLocks(f"{folder}/{name} cannot be opened: {error.strerror}") from error
            time.sleep(_RETRY_S)


def _plain(folder: int, name: str) -> int:
    """Open a file relative to a folder, whose descriptor is closed."""
    try:
        try:
            file = os.open(name, _OPEN, dir_fd=folder)
        except FileNotFoundError:
            file = os.open(name, _OPEN | os.O_CREAT | os.O_EXCL, _FILE, dir_fd=folder)
            os.fchmod(file, _FILE)  # whatever the umask
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise NoLocks(f"{name} among the locks is no plain file")
    return file


def still_there(folder: str, name: str, file: int) -> bool:
    """Return whether an open file is the one that others find under its name."""
    with suppress(OSError):
        return os.path.samestat(os.lstat(os.path.join(folder, name)), os.fstat(file))
    return False
