"""Opens the database that a path or a URL names."""

from __future__ import annotations

import os
from pathlib import Path

from autotune.errors import RecordError
from autotune.record.database import Database
from autotune.record.log_database import SUFFIXES, FolderDatabase, LogDatabase, log_files
from autotune.record.paths import LogPath, log_source
from autotune.record.sql_database import SqlDatabase, SqliteDatabase, sqlite_file

# What a file of SQLite begins with.
_SQLITE = b"SQLite format 3\0"


def open_database(where: LogPath | Database) -> Database:
    """Return the database at a location, which need not exist yet.

    Args:
        where: the path of a log; a folder of logs, which exists or whose name ends in ``/``; an
            SQLite file or ``sqlite:///file``; ``postgresql://user@host/database``; or a database,
            which is returned.

    Raises:
        RecordError: the argument is none of these, or the location cannot be used.

    Example::

        with open_database("postgresql://tuner@db/kernels") as db:
            db.extend(load_from_file("gemm.log", races=True))
            print(len(list(db.records())))
    """
    if isinstance(where, Database):
        return where
    source = log_source(where)
    if where in ("", b"", "file://"):
        raise RecordError("expected the path of a log or a URL, got an empty text")
    if isinstance(source, str):
        return SqlDatabase(source)
    if source.is_dir() or (isinstance(where, str) and where.endswith("/")):
        return FolderDatabase(source)
    return SqliteDatabase(source) if is_sqlite(source) else LogDatabase(source)


def is_sqlite(path: Path) -> bool:
    """Return whether there is an SQLite file at a path, without opening a pipe."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):
        return False


def is_store(source: Path | str) -> bool:
    """Return whether records are in more than one plain file there."""
    # Not `source.is_dir()`: what opens a path that cannot be looked at says why it cannot.
    return isinstance(source, str) or os.path.isdir(source) or is_sqlite(source)


def existing(source: Path | str) -> Database:
    """Return the database at a location for reading, without creating one.

    Raises:
        RecordError: there is no database.
    """
    if isinstance(source, str):
        file = sqlite_file(source)
        if file is not None and not file.exists():
            raise RecordError(f"there is no database {source}; check the URL, or tune first")
    elif source.is_dir() and not log_files(source):
        raise RecordError(
            f"there is no log in the folder {source}; logs end in {', '.join(SUFFIXES)}"
        )
    return open_database(source)
