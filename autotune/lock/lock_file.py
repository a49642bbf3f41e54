"""Lock files in TOML: written for people, and read completely or refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from autotune.errors import AutotuneError, LockError
from autotune.lock.entries import Locked
from autotune.lock.functions import LockedFunction, function_of_row
from autotune.measure.types import Pair
from autotune.record.codec import decode
from autotune.record.database import RACE_NOTE
from autotune.task import Task
from autotune.utils.check import Check
from autotune.utils.files import publish

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LOCK_FILE = "autotune.lock"
_VERSION = 1
_HEAD = "# Which kernels are used, written by `autotune lock write`; not to be edited by hand.\n"
# What an entry must have, all of it text.
_TEXTS = (
    "task", "args", "target", "device", "device_class", "text_sha256", "code_sha256", "compiler",
    "record",
)  # fmt: skip


def write_lock(
    path: str | os.PathLike[str],
    entries: Iterable[Locked],
    functions: Iterable[LockedFunction] = (),
) -> None:
    """Write a lock: either all of it is there, or what was there before.

    Args:
        path: the file.
        entries: kernels of templates.
        functions: those of networks.

    Raises:
        LockError: it cannot be written, or ``tomli-w`` is not installed.
    """
    Check(LockError, "write_lock").path("path", path)
    try:
        import tomli_w  # who only reads a lock does not need it
    except ImportError as error:
        raise LockError(
            f"cannot write the lock {os.fspath(path)}: {error.name} is not installed; "
            "pip install tomli-w"
        ) from error
    rows = {"kernel": [each.row for each in entries], "function": [f.row for f in functions]}
    text = tomli_w.dumps({"version": _VERSION, **{key: row for key, row in rows.items() if row}})
    try:
        publish(Path(path), (_HEAD + text).encode())
    except OSError as error:
        raise LockError(f"cannot write the lock {os.fspath(path)}: {error.strerror}") from error


def read_lock(path: str | os.PathLike[str]) -> list[Locked]:
    """Return the kernels of templates in a lock file.

    Raises:
        LockError: the file is missing or malformed, or its readable part and its part for programs
            disagree.
    """
    rows = _rows(path, "kernel")
    return [_entry(f"{os.fspath(path)}: kernel {n}", row) for n, row in enumerate(rows, 1)]


def read_functions(path: str | os.PathLike[str]) -> list[LockedFunction]:
    """Return the functions of networks in a lock file.

    Raises:
        LockError: the file is missing or malformed.
    """
    rows = _rows(path, "function")
    where = os.fspath(path)
    return [function_of_row(f"{where}: function {n}", row) for n, row in enumerate(rows, 1)]


def _rows(path: str | os.PathLike[str], key: str) -> list[object]:
    Check(LockError, "lock").path("path", path)
    name = os.fspath(path)
    try:
        content = tomllib.loads(Path(path).read_text("utf-8-sig"))
    except OSError as error:
        raise LockError(
            f"cannot read the lock {name}: {error.strerror}; `autotune lock write LOG` makes one"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LockError(f"{name} is no lock: {error}") from error
    if content.get("version") != _VERSION:
        raise LockError(
            f"{name}: expected a lock of version {_VERSION}, got {content.get('version')!r}; make "
            "it anew with `autotune lock write`, or upgrade autotune"
        )
    rows = content.get(key, [])
    if not isinstance(rows, list):
        raise LockError(f"{name}: expected a list of {key}s")
    return rows


def _entry(where: str, row: object) -> Locked:
    if not isinstance(row, dict):
        raise LockError(f"{where}: expected a table, got {row!r:.80}")
    missing = [key for key in _TEXTS if not isinstance(row.get(key), str)]
    if missing:
        raise LockError(f"{where}: expected a text as {', '.join(missing)}")
    inp, result = _record(where, row["record"])
    entry = Locked(
        measure_input=inp,
        result=result,
        **{key: row[key] for key in ("device", "device_class", "text_sha256", "code_sha256",
                                     "compiler")},
    )  # fmt: skip
    wrong = [key for key, value in entry.row.items() if row.get(key) != value and key != "record"]
    if wrong:
        raise LockError(
            f"{where} ({entry.title}): {', '.join(wrong)} is not what its record says; it was "
            "edited by hand: make the lock anew with `autotune lock write`"
        )
    return entry


def _record(where: str, line: str) -> Pair:
    try:
        pair = decode(line.removeprefix(RACE_NOTE))
    except AutotuneError as error:
        raise LockError(f"{where}: its record cannot be read: {error}") from error
    if pair is None or not isinstance(pair[0].task, Task) or not pair[1].ok:
        raise LockError(f"{where}: expected the record of a trial of a template that worked")
    return pair
