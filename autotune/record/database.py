"""Databases of trials, keyed by workload: one interface to all stores of records."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from autotune.errors import RecordError
from autotune.measure.types import MeasureInput, MeasureResult, Pair
from autotune.record.best import is_race
from autotune.record.codec import Decoder, decode, encode, measure_str_key

logger = logging.getLogger("autotvm")

Filter = Callable[[MeasureInput, list[MeasureResult]], bool]
Row = tuple[MeasureInput, list[MeasureResult]]
D = TypeVar("D", bound="Database")

# What a line begins with that holds the winner of a final race: a comment to AutoTVM's reader.
RACE_NOTE = "# race "


class Database(ABC):
    """Results of trials by target, task and configuration.

    Whatever keeps them, what is kept are the lines of a log in the order in which they were
    saved, the winners of final races among them, so that any of them can be copied into any other
    and means the same. `open_database` makes one of a path or a URL. A subclass keeps lines.

    Any number of threads and processes may use a database at once.
    """

    url: str = ""

    def load(
        self, inp: MeasureInput, get_all: bool = False
    ) -> MeasureResult | list[MeasureResult] | None:
        """Return the latest result of a trial; None when there is none.

        Args:
            inp: the trial.
            get_all: whether all of its results are returned, in a list, as they were saved.
        """
        results = [result for _, result in self._readable(self._get(measure_str_key(inp)))]
        if not results:
            return None
        return results if get_all else max(results, key=lambda result: result.timestamp)

    def save(self, inp: MeasureInput, res: MeasureResult, extend: bool = False) -> None:
        """Store a result, in place of earlier ones or, with ``extend``, beside them.

        A result that is there already is not stored again. Where nothing is to be replaced,
        `extend` is faster.
        """
        key, row = measure_str_key(inp), row_of(inp, res)
        rows = self._get(key)
        if not extend and rows != [row]:
            self._replace(key, row)
        elif row not in rows:
            self.write([row])

    def extend(self, pairs: Iterable[Pair]) -> None:
        """Add results in one operation, without reading those that are stored already.

        Raises:
            RecordError: the results cannot be stored.
        """
        rows = [row_of(inp, result) for inp, result in pairs]
        if rows:
            self.write(rows)

    def records(self, races: bool = False) -> Iterator[Pair]:
        """Return all records in order; those that cannot be read are counted in a warning.

        Args:
            races: whether the winners of final races are given as well, which were trials before.
        """
        wanted = (line for line in self.lines() if races or not line.startswith(RACE_NOTE))
        return self._readable(wanted)

    def filter(self, func: Filter) -> list[Row]:
        """Return every trial with its results for which ``func(inp, results)`` is true."""
        groups: dict[str, Row] = {}
        for inp, result in self.records(races=True):
            groups.setdefault(measure_str_key(inp), (inp, []))[1].append(result)
        return [row for row in groups.values() if func(*row)]

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Yield all lines in order, each with its newline, as a log file has them."""

    @abstractmethod
    def write(self, rows: Sequence[str]) -> None:
        """Append lines; their newlines may be left out.

        Raises:
            RecordError: they cannot be stored.
        """

    @abstractmethod
    def flush(self) -> None:
        """Forget everything."""

    @abstractmethod
    def state(self) -> object:
        """Return a value that changes whenever the database is written; cheap to compute."""

    @abstractmethod
    def _get(self, key: str) -> Sequence[str]:
        """Return the rows of a key, oldest first."""

    @abstractmethod
    def _replace(self, key: str, row: str) -> None:
        """Put one row in place of those of a key."""

    def close(self) -> None:  # noqa: B027 - most have nothing to give back
        """Give back what it holds open; it may not be used afterwards."""

    def __enter__(self: D) -> D:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _readable(self, rows: Iterable[str]) -> Iterator[Pair]:
        """Yield the records of rows; those that hold none are passed over with a warning."""
        decoder, problems, first = Decoder(), 0, ""
        for row in rows:
            try:
                pair = decoder.decode(row.removeprefix(RACE_NOTE))
            except RecordError as error:
                problems, first = problems + 1, first or str(error)
                continue
            if pair is not None:
                yield pair
        if problems:
            logger.warning(
                "%d rows of %s could not be read (%s)", problems, self.url or "a database", first
            )


def row_of(inp: MeasureInput, result: MeasureResult) -> str:
    """Return the line of a record without its newline: that of a race is marked as one.

    Raises:
        RecordError: something in it has no JSON form.
    """
    row = encode(inp, result)
    return f"{RACE_NOTE}{row}" if is_race(result) else row


def key_of(row: str) -> str:
    """Return the key under which a line is found; empty for one that holds no record."""
    try:
        pair = decode(row.removeprefix(RACE_NOTE))
    except RecordError:
        return ""
    return "" if pair is None else measure_str_key(pair[0])


class DummyDatabase(Database):
    """A database in memory, which ends with the process."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str]] = []
        self._lock = threading.RLock()
        self._changes = 0

    def lines(self) -> Iterator[str]:
        """Yield all lines in order."""
        return (f"{row}\n" for _, row in list(self._rows))

    def write(self, rows: Sequence[str]) -> None:
        """Append lines."""
        with self._lock:
            self._rows += [(key_of(row), row.rstrip("\n")) for row in rows]
            self._changes += 1

    def flush(self) -> None:
        """Forget everything."""
        with self._lock:
            self._rows = []
            self._changes += 1

    def state(self) -> object:
        """Return how often it was changed."""
        return self._changes

    def _get(self, key: str) -> list[str]:
        return [row for known, row in self._rows if known == key]

    def _replace(self, key: str, row: str) -> None:
        with self._lock:
            self._rows = [one for one in self._rows if one[0] != key] + [(key, row)]
            self._changes += 1


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
