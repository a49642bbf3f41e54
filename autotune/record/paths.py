"""Locations of records: the path of a log, or the URL of a store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from autotune.errors import RecordError

LogPath = str | os.PathLike[str] | os.PathLike[bytes]

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_FILE = "file://"
# A URL of a database without its slashes would be the path of a file.
_NO_SLASHES = re.compile(r"(sqlite|postgres|postgresql):(?!//)", re.IGNORECASE)
_PASSWORD = re.compile(r"(://[^/@:]*:).*@|([?&]password=)[^&\s]*", re.IGNORECASE)


def is_url(value: object) -> bool:
    """Return whether a text is the URL of a store; a `Path` never is, whatever it contains."""
    return isinstance(value, str) and _URL.match(value) is not None


def log_path(path: LogPath) -> Path:
    """Return the path of a log from a path in any form.

    Raises:
        RecordError: the argument is not a path, is the URL of something other than a file, or a
            file cannot exist there.
    """
    try:
        text = os.fsdecode(path)
    except TypeError as error:
        raise RecordError(f"expected the path of a log, got {path!r}") from error
    if not text:
        raise RecordError("expected the path of a log, got an empty text")
    if "\0" in text:
        raise RecordError(f"expected the path of a log, got {path!r}, which has a null character")
    if isinstance(path, str) and is_url(path):
        if not text.lower().startswith(_FILE):
            raise RecordError(
                f"expected the path of a log, got the URL {without_password(text)}; only what "
                "reads and appends records takes URLs of databases"
            )
        text = unquote(text[len(_FILE) :])
    found = Path(text)
    try:
        found.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass  # not there yet, or what opens it says what is in the way
    except OSError as error:  # a name too long, a folder that may not be looked into
        raise RecordError(f"cannot use the path {text}: {error.strerror}") from error
    return found


def lasting_path(path: Path) -> Path:
    """Return the absolute path of a file, which is the same wherever the program goes later."""
    try:
        return path.absolute()
    except FileNotFoundError:  # the current folder was removed
        return path


def log_source(source: LogPath) -> Path | str:
    """Return where records are: a path, or the URL of a database as a text.

    Raises:
        RecordError: it is neither.
    """
    if isinstance(source, str) and is_url(source) and not source.lower().startswith(_FILE):
        return source
    if isinstance(source, str) and (found := _NO_SLASHES.match(source)):
        raise RecordError(
            f"expected the path of a log or a URL, got {source!r}; the URL of a database begins "
            f"with {found[0]}//, such as sqlite:///trials.db; a file of that name is ./{source}"
        )
    return log_path(source)


def without_password(url: str) -> str:
    """Return a URL that may be printed."""
    return _PASSWORD.sub(lambda found: f"{found[1]}***@" if found[1] else f"{found[2]}***", url)
