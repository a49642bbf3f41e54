"""Logs of the auto-scheduler: reading what others wrote, appending whole lines."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from autotune.auto_scheduler.measuring.measure_input import MeasureInput
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.records.codec import (
    NOTE,
    OF_TEMPLATE,
    RecordedPair,
    decode,
    encode,
    encode_note,
    encode_race,
)
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.errors import RecordError
from autotune.measure.types import MeasureInput as TrialInput
from autotune.measure.types import MeasureResult
from autotune.record.paths import LogPath, log_path
from autotune.record.reader import RACE_NOTE, InvalidLine, is_torn, open_log
from autotune.record.writer import LogWriter
from autotune.utils.check import Check

logger = logging.getLogger("auto_scheduler")

# The file that TVM 0.7 used where none was named.
DEFAULT_FILE = "auto_scheduler_tuning.json"
# Unreadable lines named one by one in a warning.
_NAMED = 3


class RecordReader(Iterable[RecordedPair]):
    """The records of a log, in order; lines that hold none are reported and passed over.

    Args:
        filename: the log.
        races: whether the winners of final races are given as well, which were trials before.

    Attributes:
        problems: the unreadable lines met so far.
    """

    def __init__(self, filename: LogPath = DEFAULT_FILE, races: bool = False) -> None:
        self.path = log_path(filename)
        self._races = races
        self.problems: list[InvalidLine] = []
        self._read = 0

    def __iter__(self) -> Iterator[RecordedPair]:
        self.problems = []
        self._read = 0
        note = ""
        with open_log(self.path) as file:
            for number, text in enumerate(file, start=1):
                line = text.removeprefix(RACE_NOTE) if self._races else text
                try:
                    pair = decode(line, note)
                except RecordError as error:
                    self.problems.append(InvalidLine(number, str(error), is_torn(text, error)))
                    continue
                finally:
                    note = text if text.startswith(NOTE) else ""
                if pair is not None:
                    self._read += 1
                    yield pair
        if self.problems:
            logger.warning(self.report())

    def read_lines(
        self, max_lines: int | None = None, skip_lines: int = 0
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Returns inputs and results of ``max_lines`` records (of all if None), after some."""
        check = Check(RecordError, "RecordReader.read_lines")
        check.whole("skip_lines", skip_lines, 0)
        if max_lines is not None:
            check.whole("max_lines", max_lines)
        stop = None if max_lines is None or max_lines < 0 else skip_lines + max_lines
        pairs = list(islice(self, skip_lines, stop))
        return [inp for inp, _ in pairs], [result for _, result in pairs]

    def report(self) -> str:
        """Says what could not be read; an empty string when all could."""
        if not self.problems:
            return ""
        total = self._read + len(self.problems)
        named = "; ".join(f"line {each.line}: {each.reason}" for each in self.problems[:_NAMED])
        more = len(self.problems) - _NAMED
        rest = f"; and {more} more" if more > 0 else ""
        end = "the others are used" if self._read else "is it a log of the auto-scheduler?"
        if all(each.reason == OF_TEMPLATE for each in self.problems):
            end = (
                "autotvm.record.load_from_file reads records of templates, and "
                "autotvm.apply_history_best uses them"
            )
        return (
            f"log {self.path}: {len(self.problems)} of {total} records could not be read "
            f"({named}{rest}); {end}"
        )


class RecordToFile:
    """A callback that appends what was measured to a log, as soon as it is known.

    Args:
        filename: the log; made with its folders when missing.

    Attributes:
        filename: as given.
        path: the log.

    Raises:
        RecordError: the log cannot be written; the message says where the rows are.
    """

    # It is called when a trial ends, even while one that was begun before is under way.
    at_once = True

    def __init__(self, filename: LogPath = DEFAULT_FILE) -> None:
        self.filename = str(filename)
        self.path = log_path(filename)
        self._writer = LogWriter(self.path)
        self._writer.check()

    def __call__(
        self,
        search: object,
        inputs: Iterable[MeasureInput | TrialInput],
        results: Iterable[MeasureResult],
    ) -> None:
        """Append the trials of a batch in one write."""
        del search
        self._writer.write(lines_of(zip(inputs, results, strict=True)))

    def raced(
        self, search: object, given: MeasureInput | TrialInput, result: MeasureResult
    ) -> None:
        """Append the winner of a final race, as a comment to TVM's reader."""
        del search
        self._writer.write([encode_race(as_input(given), result) + "\n"])

    callback = __call__


def lines_of(pairs: Iterable[tuple[MeasureInput | TrialInput, MeasureResult]]) -> list[str]:
    """Returns the lines of records, each with what goes before it."""
    lines = []
    for given, result in pairs:
        inp = as_input(given)
        note = encode_note(inp, result)
        # One string, so that no other process writes between them.
        lines.append(f"{note}\n{encode(inp, result)}\n" if note else f"{encode(inp, result)}\n")
    return lines


def as_input(given: MeasureInput | TrialInput) -> MeasureInput:
    """Returns a trial as the auto-scheduler names its parts."""
    if isinstance(given, MeasureInput):
        return given
    task, state = given.task, given.config
    if not isinstance(task, SearchProblem) or not isinstance(state, RecordedState):
        raise RecordError(
            f"RecordToFile: expected trials of a search task, got one of {task!r}; log trials of "
            "templates by log_to_file"
        )
    return MeasureInput(task, state)


def load_records(filename: LogPath) -> Iterator[RecordedPair]:
    """Yields the records of a log.

    Raises:
        LogMissingError: the file cannot be opened.
    """
    return iter(RecordReader(filename))


def save_records(
    filename: LogPath,
    inputs: Sequence[MeasureInput | TrialInput],
    results: Sequence[MeasureResult],
) -> None:
    """Append records to a log.

    Raises:
        RecordError: there is not one result for each input.
    """
    check = Check(RecordError, "save_records")
    count = len(check.sequence("inputs", inputs, "a list of MeasureInput"))
    if len(check.sequence("results", results, "a list of MeasureResult")) != count:
        check.refuse("results", f"one for each of {count} inputs", results)
    RecordToFile(filename)(None, inputs, results)


def load_record_from_string(record: str) -> RecordedPair:
    """Returns input and result of a line.

    Raises:
        RecordError: it is no record.
    """
    pair = decode(Check(RecordError, "load_record_from_string").text("record", record).strip())
    if pair is None:
        raise RecordError("load_record_from_string: the line is empty, or a comment")
    return pair


def dump_record_to_string(inp: MeasureInput | TrialInput, result: MeasureResult) -> str:
    """Returns the line of a record, with its newline, as TVM does."""
    check = Check(RecordError, "dump_record_to_string")
    check.kind("inp", inp, (MeasureInput, TrialInput), "a MeasureInput")
    check.kind("result", result, MeasureResult, "a MeasureResult")
    return encode(as_input(inp), result) + "\n"
