"""Reading logs, which may hold comments, malformed lines and an incomplete last line."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple, cast

from autotune.errors import RecordError
from autotune.measure.types import Pair
from autotune.record.bounded_lines import open_bounded
from autotune.record.codec import Decoder, Protocol
from autotune.record.database import RACE_NOTE as RACE_NOTE
from autotune.record.database import Database
from autotune.record.paths import LogPath, log_source, without_password
from autotune.record.row_parts import NoJsonError
from autotune.record.store import existing, is_store
from autotune.utils.check import Check
from autotune.utils.garbage import collection_paused

logger = logging.getLogger("autotvm")

# A line that says what was chosen for a network: a comment to every reader of records.
NETWORK_NOTE = "# network "
# Unreadable lines named one by one in a warning.
NAMED = 3
# Lines of a file read at a time.
AHEAD = 1000


class LogMissingError(RecordError, FileNotFoundError):
    """A log that does not exist, or cannot be opened."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class InvalidLine:
    """A line that holds no record."""

    line: int
    reason: str
    torn: bool = False


class Numbered(NamedTuple):
    """A record and the line that holds it.

    Attributes:
        number: of the line, from 1.
        line: its text.
        pair: the record.
    """

    number: int
    line: str
    pair: Pair


class LogReader(Iterable[Pair]):
    """The records of a log, in order; lines that hold none are noted and passed over.

    When an iteration ends, one warning names how many lines were unreadable and the first few.

    Args:
        lines: lines with their newlines, as a file gives them.
        name: the log's name in messages.
        quiet: whether the caller prints `report` itself.
        races: whether the winners of final races are given as well, which were trials before.
        ahead: how many lines may be read before the first of their records is asked for; more
            than one only where lines need not be waited for. Many at a time are read faster.
        decode: reads one line, for logs that hold more than records of templates; what begins a
            race is not taken off before. By default `Decoder.decode`.
        others: is given the lines that hold no record, by number.

    Attributes:
        problems: the unreadable lines met so far.
    """

    def __init__(
        self,
        lines: Iterable[str],
        name: str,
        quiet: bool = False,
        races: bool = False,
        ahead: int = 1,
        decode: Callable[[str], Pair | None] | None = None,
        others: dict[int, str] | None = None,
    ) -> None:
        self._ahead = ahead
        self._decode = decode
        self._others = others
        self._quiet = quiet
        self._races = races
        self._lines = lines
        self._name = name
        self.problems: list[InvalidLine] = []
        self._read = 0

    def __iter__(self) -> Iterator[Pair]:
        return (one.pair for one in self.numbered())

    def numbered(self) -> Iterator[Numbered]:
        """Yield the records with the lines that hold them."""
        numbered = enumerate(self._lines, start=1)
        decode = self._decode or self._of_templates(Decoder())
        while lines := list(islice(numbered, self._ahead)):
            yield from self._decoded(decode, lines)
        if self.problems and not self._quiet:
            logger.warning(self.report())

    def _of_templates(self, decoder: Decoder) -> Callable[[str], Pair | None]:
        def decode(text: str) -> Pair | None:
            line = text.removeprefix(RACE_NOTE) if self._races else text
            return decoder.decode(line, protocol_of(line))

        return decode

    @collection_paused()
    def _decoded(
        self, decode: Callable[[str], Pair | None], lines: Sequence[tuple[int, str]]
    ) -> list[Numbered]:
        pairs = []
        for number, line in lines:
            pair = None
            try:
                pair = decode(line)
            except RecordError as error:
                self.problems.append(InvalidLine(number, str(error), is_torn(line, error)))
            if pair is not None:
                pairs.append(Numbered(number, line, pair))
            elif self._others is not None:
                self._others[number] = line
        self._read += len(pairs)
        return pairs

    @property
    def is_no_log(self) -> bool:
        """Whether no line that was read is a record, or was one before it was cut short."""
        return not self._read and not all(problem.torn for problem in self.problems)

    def report(self) -> str:
        """Say what could not be read; an empty string when all could."""
        if not self.problems:
            return ""
        total = self._read + len(self.problems)
        named = "; ".join(f"line {p.line}: {_why(p)}" for p in self.problems[:NAMED])
        more = len(self.problems) - NAMED
        if not self._read:
            none = f"none of its {total} lines is" if total > 1 else "its only line is not"
            return f"log {self._name}: {none} a record ({named}); is it a log?"
        return (
            f"log {self._name}: {len(self.problems)} of {total} records could not be read "
            f"({named}{f'; and {more} more' if more > 0 else ''}); the others are used. "
            f"`autotune log compact` removes such lines"
        )


def load_from_file(filepath: LogPath | Database, races: bool = False) -> Iterator[Pair]:
    """Yield the records of a log, or of whatever else `open_database` opens.

    Args:
        filepath: the log, the folder of logs, the URL of a database, or a database.
        races: whether the winners of final races are given as well, which were trials before.

    Raises:
        LogMissingError: the file cannot be opened.
        RecordError: the database cannot be read.
    """
    if isinstance(filepath, Database):
        return filepath.records(races)
    Check(RecordError, "load_from_file").path("filepath", filepath)
    source = log_source(filepath)
    # Opened here, not at the first next(), so that a wrong path shows where it was written.
    return _read_and_close(open_log(source), source_name(source), races)


def load_from_buffer(buffer: IO[str], races: bool = False) -> Iterator[Pair]:
    """Yield the records of an open text file.

    Args:
        buffer: the file.
        races: as of `load_from_file`.
    """
    return iter(LogReader(buffer, str(getattr(buffer, "name", "the given file")), races=races))


def source_name(source: Path | str) -> str:
    """Return the name of a source of records in messages."""
    return without_password(str(source))


def open_log(path: Path | str) -> IO[str]:
    """Open a log for reading; bytes that are no UTF-8 are replaced, not fatal.

    Args:
        path: of a file; or a folder of logs, or the URL of a database, of which all lines follow
            each other.

    Raises:
        LogMissingError: it cannot be opened.
    """
    if is_store(path):
        try:
            return cast(IO[str], _Lines(existing(path)))
        except RecordError as error:
            raise LogMissingError(str(error)) from error
    try:
        return open_bounded(path)
    except (OSError, ValueError) as error:  # a path with a null character is no OSError
        why = error.strerror if isinstance(error, OSError) else error
        raise LogMissingError(
            f"cannot read the log {path}: {why}; check the path, or tune first"
        ) from error


class _Lines(io.TextIOBase):
    """The lines of a database, read as those of a file are."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lines = database.lines()
        self.name = database.url

    def readable(self) -> bool:
        """Return True."""
        return True

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        """Return the next line; empty at the end."""
        del size
        return next(self._lines, "")

    def close(self) -> None:
        """Close the database."""
        if not self.closed:
            self._database.close()
        super().close()


def _read_and_close(file: IO[str], name: str, races: bool) -> Iterator[Pair]:
    with file:
        yield from LogReader(file, name, races=races, ahead=AHEAD)


def protocol_of(line: str) -> Protocol:
    """Return in which of the two protocols of AutoTVM a line is written."""
    if line.startswith("{"):
        return "json"
    return "json" if line.lstrip()[:1] in ("{", "#", "", "[") or "\t" not in line else "pickle"


def is_torn(line: str, error: RecordError) -> bool:
    """Returns whether a line that was refused is the beginning of a record, and the file's end."""
    if line.endswith("\n"):
        return False
    return protocol_of(line) == "pickle" or ("{" in line and isinstance(error, NoJsonError))


def _why(problem: InvalidLine) -> str:
    if problem.torn:
        return f"cut short, its writer was interrupted ({problem.reason})"
    return problem.reason
