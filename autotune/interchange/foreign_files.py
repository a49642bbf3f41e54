"""Reading files of other tuners: JSON, packed or not, that anybody may have written."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from autotune.errors import RecordError
from autotune.record.codec import decode
from autotune.record.paths import LogPath, log_path

# Most characters of a file, unpacked: far above any cache, far below a machine's memory.
LARGEST = 1 << 29
_GZIP = b"\x1f\x8b"


class ForeignFileError(RecordError, ValueError):
    """A file of another tuner cannot be read; the message says which and why."""


def read_text(path: LogPath) -> str:
    """Return a file's text; one that begins as gzip does is unpacked.

    Raises:
        ForeignFileError: it cannot be opened, is too large, or is no UTF-8 text.
    """
    where = log_path(path)
    try:
        with where.open("rb") as file:
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            source = gzip.GzipFile(fileobj=file) if packed else file
            content = source.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ForeignFileError(f"cannot read {where}: {why}") from error
    if len(content) > LARGEST:
        raise ForeignFileError(
            f"cannot read {where}: it has more than {LARGEST >> 20} MiB; give a smaller part of it"
        )
    try:
        return str(content, "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ForeignFileError(f"{where} is no text in UTF-8: expected a JSON file") from error


def parse(text: str, where: Path) -> object:
    """Return JSON data.

    Raises:
        ForeignFileError: it is none, or nested too deeply to be read.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ForeignFileError(f"{where} is nested too deeply to be read") from error
    except ValueError as error:  # not JSON, or a number of thousands of digits
        advice = "; it is a log of autotune, which needs no import" if _is_log(text) else ""
        raise ForeignFileError(f"{where} is no JSON: {str(error)[:200]}{advice}") from error


def _is_log(text: str) -> bool:
    """Return whether the first line of a text is a record of autotune or AutoTVM."""
    try:
        return decode(text.partition("\n")[0]) is not None
    except RecordError:
        return False


def an_object(value: object, what: str, where: Path) -> Mapping[str, object]:
    """Return a value that is a JSON object.

    Raises:
        ForeignFileError: it is something else.
    """
    if not isinstance(value, dict):
        raise ForeignFileError(f"{where}: expected {what} to be an object, got {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """Return the name of a value's kind in JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "an array"
        case _:
            return "an object" if isinstance(value, dict) else type(value).__name__


def one_line(value: object) -> str:
    """Return a text of one visible line, or an empty one where the value is none."""
    return value if isinstance(value, str) and value.isprintable() else ""


def epoch_of(value: object) -> float | None:
    """Return the seconds since the epoch of an ISO 8601 time; without a zone it is UTC."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        found = found if found.tzinfo else found.replace(tzinfo=timezone.utc)
        return found.timestamp()
    except (ValueError, OverflowError):
        return None
