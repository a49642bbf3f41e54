"""Files that are written completely or not at all, or read only if no other user wrote them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from autotune.utils.environment import private

_OWN, _ANYBODYS = 0o600, 0o666
# Where Linux has the open files of a process.
_DESCRIPTORS = "/proc/self/fd"
# How long to wait for another writer that replaces a file of a folder.
_LOCK_S = 1.0


def write_atomically(path: Path, content: bytes, missing_ok: bool = False) -> None:
    """Write an internal file, for this user alone, so that no reader ever sees a part of it.

    Links are followed; a path that is not a regular file (``/dev/stdout``, a pipe) is written
    directly.

    Args:
        path: the file; missing folders are created, for this user alone.
        content: the contents.
        missing_ok: whether a failure (a cache on a full or read-only disk) is ignored instead of
            raising `OSError`.
    """
    try:
        _make(path.parent)
        _write(path, [content], _OWN)
    except OSError:
        if not missing_ok:
            raise


def remove_own(folder: str, process: int) -> None:
    """Remove a temporary folder at the end of what made it, but not at that of a fork of it.

    Args:
        folder: of that process.
        process: which made it; one that was forked from it leaves the folder alone.
    """
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def publish(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file that the user requested so that no reader ever sees a part of it.

    Its mode follows from the umask, or is that of the file that it replaces. Missing folders are
    created. The file is on the disk when this returns.

    Args:
        path: the file.
        content: the contents, or their pieces, of which one is in memory at a time.

    Raises:
        OSError: the file cannot be written; an existing file is unchanged.
    """
    if not path.exists():
        path = _resolved(path)  # of a link to nothing yet
        path.parent.mkdir(parents=True, exist_ok=True)
    pieces = [content] if isinstance(content, bytes) else content
    _write(path, pieces, _ANYBODYS, durable=True)


def _make(folder: Path) -> None:
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def read_own(path: Path) -> bytes:
    """Return the contents of a file that only this user can have written.

    Raises:
        OSError: the file cannot be read, belongs to another user, or others may write to it.
    """
    with path.open("rb") as file:
        if not private(os.fstat(file.fileno())):
            raise PermissionError(f"{path}: others may have written it")
        return file.read()


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError as error:  # what Python before 3.13 raises for links in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from error


def _write(path: Path, pieces: Iterable[bytes], mode: int, durable: bool = False) -> None:
    before = path.stat() if path.exists() else None
    if before is not None and not stat.S_ISREG(before.st_mode):
        with path.open("wb") as special:  # a device or a pipe must stay what it is
            special.writelines(pieces)
        return
    path = _resolved(path)  # a link stays, and leads to what is new
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle, is_named = _open_beside(temporary, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
            file.flush()
            if before is not None and mode != _OWN:
                os.fchmod(handle, stat.S_IMODE(before.st_mode))
            if durable:
                os.fsync(handle)
            if not is_named:
                _give_name(handle, path, temporary)
                return
            os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _open_beside(temporary: Path, mode: int) -> tuple[int, bool]:
    """Open a new file, which has no name yet where the system can do that; return whether it has.

    One without a name is gone with the process that writes it, even if that is killed.
    """
    if hasattr(os, "O_TMPFILE") and os.path.isdir(_DESCRIPTORS):
        flags = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC
        with contextlib.suppress(OSError):  # not every file system can
            return os.open(temporary.parent, flags, mode), False
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), True


def _give_name(handle: int, path: Path, temporary: Path) -> None:
    """Put an open file without a name at a path, in the place of what is there.

    To replace a file takes a second name. Who is killed there leaves it; as only one writer at a
    time uses that of a file, the next one removes it.
    """
    if not path.exists() and _link(handle, path):
        return
    with _alone_in(path.parent) as alone:
        if alone:
            temporary = path.with_name(f".{path.name}.replacing")
            temporary.unlink(missing_ok=True)
        if not _link(handle, temporary):
            _copy(handle, temporary)
        os.replace(temporary, path)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[bool]:
    """Keep other writers from replacing files of a folder; yield whether that is so."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # a folder that may be written to, and not be listed
        yield False
        return
    try:
        yield _is_locked(descriptor)
    finally:
        with contextlib.suppress(OSError):  # a process that was forked meanwhile has it open too
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Lock a folder; return whether that is done, soon."""
    end = time.monotonic() + _LOCK_S
    while time.monotonic() < end:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.002)
        except OSError:  # not every file system can
            return False
        else:
            return True
    return False  # who has it may have been stopped


def _link(handle: int, path: Path) -> bool:
    """Give an open file without a name this one; return whether it has it.

    It has not where there is another file, or where a sandbox or file system lets nobody do it.
    """
    try:  # with a folder's descriptor the link is to the file
        os.link(f"{_DESCRIPTORS}/{handle}", path, src_dir_fd=handle)
    except OSError:
        return False
    return True


def _copy(handle: int, path: Path) -> None:
    """Write what an open file has, with its mode, to a new file."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    os.lseek(handle, 0, os.SEEK_SET)
    copy = os.fdopen(os.open(path, flags, _OWN), "wb")
    with copy, os.fdopen(handle, "rb", closefd=False) as whole:
        shutil.copyfileobj(whole, copy)
        copy.flush()
        os.fchmod(copy.fileno(), stat.S_IMODE(os.fstat(handle).st_mode))
        os.fsync(copy.fileno())
