"""Databases of trials, keyed by what was asked for."""

from __future__ import annotations

import logging
import sqlite3
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from autotune.errors import RecordError
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record.codec import decode, encode, measure_str_key
from autotune.record.paths import LogPath, log_path

logger = logging.getLogger("autotvm")

Filter = Callable[[MeasureInput, list[MeasureResult]], bool]
Row = tuple[MeasureInput, list[MeasureResult]]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS trials (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL, row TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_key ON trials (key);
"""


class Database(ABC):
    """Results of trials by target, task and configuration.

    A subclass stores rows, the lines of a log, under keys.
    """

    def load(
        self, inp: MeasureInput, get_all: bool = False
    ) -> MeasureResult | list[MeasureResult] | None:
        """Return the latest result of a trial, or all of them; None when there is none."""
        results = self._results(self._get(measure_str_key(inp)))
        if not results:
            return None
        return results if get_all else max(results, key=lambda result: result.timestamp)

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        """Store a result, in place of earlier ones or, with ``extend``, beside them."""
        key, row = measure_str_key(inp), encode(inp, res)
        rows = self._get(key) if extend else []
        if row not in rows:
            self._set(key, [*rows, row])

    def filter(self, func: Filter) -> list[Row]:
        """Return every trial with its results for which ``func(inp, results)`` is true."""
        found = []
        for rows in self._all():
            pairs = _readable(rows)
            results = [result for _, result in pairs]
            if pairs and func(pairs[0][0], results):
                found.append((pairs[0][0], results))
        return found

    @abstractmethod
    def flush(self) -> None:
        """Forget everything."""

    @abstractmethod
    def _get(self, key: str) -> list[str]:
        """Return the rows of a key, oldest first."""

    @abstractmethod
    def _set(self, key: str, rows: list[str]) -> None:
        """Replace the rows of a key."""

    @abstractmethod
    def _all(self) -> Iterable[list[str]]:
        """Return the rows of every key."""

    @staticmethod
    def _results(rows: Iterable[str]) -> list[MeasureResult]:
        return [result for _, result in _readable(rows)]


def _readable(rows: Iterable[str]) -> list[Pair]:
    """Return the records of rows; those that hold none are passed over with a warning."""
    pairs: list[Pair] = []
    problems: list[RecordError] = []
    for row in rows:
        try:
            pair = decode(row)
        except RecordError as error:
            problems.append(error)
            continue
        if pair is not None:
            pairs.append(pair)
    if problems:
        logger.warning("%d rows of a database could not be read (%s)", len(problems), problems[0])
    return pairs


class DummyDatabase(Database):
    """A database in memory, gone with the process."""

    def __init__(self) -> None:
        self.db: dict[str, list[str]] = {}

    def flush(self) -> None:
        """Forget everything."""
        self.db.clear()

    def _get(self, key: str) -> list[str]:
        return self.db.get(key, [])

    def _set(self, key: str, rows: list[str]) -> None:
        self.db[key] = rows

    def _all(self) -> Iterable[list[str]]:
        return list(self.db.values())


class SqliteDatabase(Database):
    """A database in one file, which several processes may use at once.

    Args:
        path: the file; made when missing.

    Raises:
        RecordError: the file cannot be used as a database.
    """

    def __init__(self, path: LogPath) -> None:
        self.path = log_path(path)
        # Trials are saved in the threads in which they end, and read in others.
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(
                self.path, timeout=30, isolation_level=None, check_same_thread=False
            )
            # Scripts never close a database; it then closes with its object.
            weakref.finalize(self, self._connection.close)
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        """Store a result, in place of earlier ones or, with ``extend``, beside them."""
        with self._whole():
            super().save(inp, res, extend)

    def flush(self) -> None:
        """Forget everything."""
        with self._whole():
            self._connection.execute("DELETE FROM trials")

    def _get(self, key: str) -> list[str]:
        query = "SELECT row FROM trials WHERE key = ? ORDER BY number"
        with self._lock:
            return [row for (row,) in self._connection.execute(query, (key,))]

    def _set(self, key: str, rows: list[str]) -> None:
        self._connection.execute("DELETE FROM trials WHERE key = ?", (key,))
        self._connection.executemany(
            "INSERT INTO trials (key, row) VALUES (?, ?)", [(key, row) for row in rows]
        )

    def _all(self) -> Iterable[list[str]]:
        groups: dict[str, list[str]] = {}
        with self._lock:
            every = self._connection.execute("SELECT key, row FROM trials ORDER BY number")
            for key, row in every:
                groups.setdefault(key, []).append(row)
        return list(groups.values())

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Run statements as one transaction, which no other thread or process sees half of."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException as error:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise self._failed(error) from error
                raise

    def _failed(self, error: sqlite3.Error) -> RecordError:
        return RecordError(
            f"database {self.path}: {error}; check that it is a database of trials on a disk "
            f"with room"
        )


def filter_inputs(
    db: Database, inputs: Iterable[MeasureInput], retry: bool = False
) -> list[MeasureInput]:
    """Return the trials that a database has no result for; with ``retry`` also the failed ones."""
    missing = []
    for inp in inputs:
        result = db.load(inp)
        assert not isinstance(result, list)
        if result is None or (retry and not result.ok):
            missing.append(inp)
    return missing
