"""Databases in SQLite or PostgreSQL, by SQLAlchemy, which is imported here only."""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.errors import RecordError
from autotune.record.database import Database, key_of
from autotune.record.paths import LogPath, log_path, without_password
from autotune.record.sql_schema import LATEST, SCHEMA_LOCK, digest_of, migrate, tables, version_of

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy import URL, Engine

# How long a writer waits for another one, in seconds.
_PATIENCE_S = 30
# Rows that are read at a time, so that no reader keeps writers waiting.
_PAGE = 1000
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}
_KINDS = ("sqlite", "postgresql")


class SqlDatabase(Database):
    """A database of SQLite or PostgreSQL, which any number of processes may use at once.

    Its tables are made when it is first written to, and migrated when it is opened and
    an older version of this package made them. Who only reads needs no right to write.

    Args:
        url: ``sqlite:///trials.db``, ``sqlite:////absolute/trials.db``, or
            ``postgresql://user:password@host/database``, as SQLAlchemy has them.

    Raises:
        RecordError: SQLAlchemy or a driver is not installed, or the database cannot be used, or
            holds the tables of another program.
    """

    def __init__(self, url: str | sa.URL) -> None:
        self._sa = _sqlalchemy()
        self._parsed = _parse(url)
        self.url = without_password(self._parsed.render_as_string())
        self._trials, _ = tables(self._sa.MetaData())
        self._engines: dict[int, sa.Engine] = {}
        self._opening = threading.Lock()
        weakref.finalize(self, _dispose, self._engines)
        # Whether the tables were seen to be there, as they are now.
        self._made = False
        try:
            self._there()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        _dispose(self._engines)

    def lines(self) -> Iterator[str]:
        """Yield all lines in order."""
        number, last = self._trials.c.number, -1
        while self._there():
            wanted = self._sa.select(number, self._trials.c.row).where(number > last)
            with self._read() as connection:
                rows = connection.execute(wanted.order_by(number).limit(_PAGE)).all()
            if not rows:
                return
            last = rows[-1][0]
            for _, row in rows:
                yield f"{row}\n"

    def write(self, rows: Sequence[str]) -> None:
        """Append lines in one transaction."""
        with self._transaction() as connection:
            self._insert(connection, rows)

    def flush(self) -> None:
        """Forget everything."""
        with self._transaction() as connection:
            connection.execute(self._sa.delete(self._trials))

    def state(self) -> object:
        """Return how many lines there are, and the number of the last."""
        count = self._sa.func.count(self._trials.c.number)
        last = self._sa.func.max(self._trials.c.number)
        if not self._there():
            return 0, None
        with self._read() as connection:
            return tuple(connection.execute(self._sa.select(count, last)).one())

    def _get(self, key: str) -> list[str]:
        if not self._there():
            return []
        columns = self._trials.c
        wanted = self._sa.select(columns.row).where(columns.digest == digest_of(key))
        with self._read() as connection:
            return list(connection.execute(wanted.order_by(columns.number)).scalars())

    def _replace(self, key: str, row: str) -> None:
        digest = digest_of(key)
        # All who replace rows of one key do so one after the other.
        with self._transaction(int(digest[:15], 16)) as connection:
            old = self._sa.delete(self._trials).where(self._trials.c.digest == digest)
            connection.execute(old)
            self._insert(connection, [row])

    def _insert(self, connection: sa.Connection, rows: Sequence[str]) -> None:
        made = [{"digest": digest_of(key_of(row)), "row": row.rstrip("\n")} for row in rows]
        if made:
            connection.execute(self._sa.insert(self._trials), made)

    def _there(self) -> bool:
        """Return whether the tables exist, after migrating older ones."""
        if not self._made:
            with self._read() as connection:
                found = version_of(connection, self.url)
            if found == LATEST:
                self._made = True
            elif found:
                self._make()
        return self._made

    def _make(self) -> None:
        """Make the tables, or migrate them."""
        with self._transaction(SCHEMA_LOCK) as connection:
            migrate(connection, self.url)
        self._made = True

    @contextmanager
    def _transaction(self, lock: int | None = None) -> Iterator[sa.Connection]:
        """Run statements as one transaction, exclusively among those with the same lock."""
        if not self._made and lock != SCHEMA_LOCK:
            self._make()
        with self._report_errors(), self._engine().connect() as plain:
            connection = plain.execution_options(autotune_writes=True)
            with connection.begin():
                if lock is not None and connection.dialect.name == "postgresql":
                    lock_it = self._sa.text("SELECT pg_advisory_xact_lock(:lock)")
                    connection.execute(lock_it, {"lock": lock})
                yield connection

    @contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        with self._report_errors(), self._engine().connect() as connection:
            yield connection

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        try:
            yield
        except self._sa.exc.SQLAlchemyError as error:
            why = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
            raise RecordError(
                f"database {self.url}: {without_password(why)}; check that it is a database of "
                "trials that you may write to, and that there is room"
            ) from error

    def _engine(self) -> sa.Engine:
        """Return this process's connections: a fork must not use those of its parent."""
        with self._opening:
            if os.getpid() not in self._engines:
                self._engines[os.getpid()] = self._connect()
            return self._engines[os.getpid()]

    def _connect(self) -> sa.Engine:
        sa: Any = self._sa
        sqlite = self._parsed.get_backend_name() == "sqlite"
        options = {"timeout": _PATIENCE_S} if sqlite else {"client_encoding": "utf8"}
        try:
            engine: Engine = sa.create_engine(self._parsed, connect_args=options)
        except ModuleNotFoundError as error:
            raise RecordError(
                f"database {self.url}: {error.name} is not installed; "
                "pip install 'autotune[postgresql]'"
            ) from error
        if sqlite:
            sa.event.listen(engine, "connect", _begin_by_hand)
            sa.event.listen(engine, "begin", _begin)
        return engine


class SqliteDatabase(SqlDatabase):
    """A database in one file of SQLite.

    Args:
        path: the file; made when missing.

    Raises:
        RecordError: SQLAlchemy is not installed, or the file cannot be used as a database.
    """

    def __init__(self, path: LogPath) -> None:
        self.path = log_path(path)
        super().__init__(_sqlalchemy().URL.create("sqlite", database=str(self.path)))


def sqlite_file(url: str) -> Path | None:
    """Return the path in a URL of SQLite; None for any other URL.

    Raises:
        RecordError: the URL does not name a database that can be used.
    """
    parsed = _parse(url)
    name = parsed.database or ""
    if parsed.get_backend_name() != "sqlite" or name.startswith("file:"):
        return None
    return Path(name)


def _parse(url: str | sa.URL) -> sa.URL:
    shown = without_password(str(url))
    named = re.split(r"[+:]", str(url).lower(), maxsplit=1)[0]
    if named not in (*_KINDS, "postgres"):
        raise RecordError(
            f"database {shown}: expected a URL of {' or '.join(_KINDS)}, "
            f"such as sqlite:///trials.db, got one of {named}"
        )
    sqlalchemy = _sqlalchemy()
    try:
        parsed: URL = sqlalchemy.make_url(url)
        backend = parsed.get_backend_name()
    except (sqlalchemy.exc.SQLAlchemyError, ValueError, AttributeError) as error:
        raise RecordError(f"database {shown}: {error}") from error
    if "@" in (parsed.host or ""):
        raise RecordError(f"database {shown}: more than one @; in a password it is written %40")
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise RecordError(
            f"database {shown}: it names no file, and records in memory are gone when the process "
            "ends; expected a URL such as sqlite:///trials.db"
        )
    return parsed.set(drivername=_DRIVERS.get(parsed.drivername, parsed.drivername))


def _sqlalchemy() -> Any:
    try:
        import sqlalchemy
    except ImportError as error:
        raise RecordError(
            "databases of SQL need SQLAlchemy; install it: pip install 'autotune[sql]', with "
            "PostgreSQL's driver: pip install 'autotune[postgresql]'"
        ) from error
    return sqlalchemy


def _begin_by_hand(connection: Any, _: object) -> None:
    """Keep Python's driver from beginning transactions when it thinks fit."""
    connection.isolation_level = None


def _begin(connection: sa.Connection) -> None:
    """Begin a transaction: who will write waits here for others, instead of failing later."""
    writes = connection.get_execution_options().get("autotune_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _dispose(engines: dict[int, Any]) -> None:
    """Close this process's connections; those of a parent are the parent's."""
    for pid, engine in list(engines.items()):
        engine.dispose(close=pid == os.getpid())
    engines.clear()
