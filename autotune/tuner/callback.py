"""Callbacks of a run, called with the tuner, the inputs and the results of each group.

Groups come in the order in which trials were proposed, before the tuner learns from them. A
callback with a true attribute ``at_once`` is called as soon as a trial ends, even while one that
was proposed before it is still under way: what keeps trials must not lose any when the run is
killed. It is called in the thread in which the trial ended, one call at a time.

A callback may also have methods, see `autotune.tuner.Callback`, the base for those that
have several: ``tuning(tuner)`` is called before the first trial, ``trial_ended(tuner, input,
result)`` as soon as one ends, ``raced(tuner, input, result)`` with the winner of the final race,
and ``tuned(tuner, result)`` with the `TuneResult` at the very end, however the run ended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from io import TextIOBase
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotune.errors import TunerError
from autotune.measure import MeasureInput, MeasureResult
from autotune.record import RACE_NOTE, Database, LogWriter, encode, open_database
from autotune.record.paths import log_path, log_source
from autotune.record.store import is_store
from autotune.tuner.display.progress import Watcher, progress_bar
from autotune.tuner.tuner import Tuner
from autotune.utils.check import Check


def log_to_file(
    file_out: str | os.PathLike[str] | TextIOBase | Database,
    protocol: str = "json",
    comments: bool = True,
) -> Watcher:
    """Append every trial to a log, in the order in which they end.

    Args:
        file_out: a path, a folder or URL that `open_database` takes, which many processes may
            append to, a database, or an open text file.
        protocol: "json".
        comments: whether the winner of the final race is a comment to AutoTVM's reader, so that
            it counts no trial twice; else it is one more record.

    Raises:
        TunerError: another protocol.
        RecordError: the log cannot be written.
    """
    note = RACE_NOTE if comments else ""
    if protocol != "json":
        raise TunerError(f"log_to_file: protocol must be 'json', got {protocol!r}")
    check = Check(TunerError, "log_to_file")
    if isinstance(file_out, (str, os.PathLike)):
        check.path("file_out", file_out)
        source = log_source(file_out)
        if not is_store(source) and not os.fspath(file_out).endswith("/"):
            path = log_path(source)
            writer = LogWriter(path)
            writer.check()
            return _FileLog(writer.write, path, note)
        file_out = open_database(file_out)
    if isinstance(file_out, Database):
        return _FileLog(file_out.write, file_out, note)
    if not callable(getattr(file_out, "write", None)):
        check.refuse("file_out", "a path of a log or an open text file", file_out)
    stream = file_out

    def write(rows: Sequence[str]) -> None:
        stream.write("".join(rows))
        stream.flush()

    return _FileLog(write, _file_of(stream), note)


def _file_of(stream: object) -> Path | None:
    """Return the file behind a stream; None for a pipe, a terminal or a text in memory."""
    name = getattr(stream, "name", None)
    return Path(name) if isinstance(name, str) and os.path.isfile(name) else None


class _FileLog:
    at_once = True

    def __init__(
        self, write: Callable[[Sequence[str]], None], path: Path | Database | None, note: str
    ) -> None:
        self._write = write
        self._note = note
        self.path = path

    def __call__(
        self, tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        self._write([encode(i, r) + "\n" for i, r in zip(inputs, results, strict=True)])

    def raced(self, tuner: Tuner, measure_input: MeasureInput, result: MeasureResult) -> None:
        """Note the winner of the final race."""
        self._write([self._note + encode(measure_input, result) + "\n"])


def log_to_database(db: Database) -> Watcher:
    """Save every trial in a database as soon as it ends, and the winner of the final race.

    Args:
        db: the database, which is called in the threads in which trials end, one call at a time.

    Raises:
        TunerError: the argument is not a database.
    """
    if isinstance(db, type) or not callable(getattr(db, "save", None)):
        Check(TunerError, "log_to_database").refuse("db", "a Database", db)

    return _DatabaseLog(db)


class _DatabaseLog:
    at_once = True

    def __init__(self, db: Database) -> None:
        self._db = db
        self.path = db

    def __call__(
        self, tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        for inp, res in zip(inputs, results, strict=True):
            self._db.save(inp, res)

    def raced(self, tuner: Tuner, measure_input: MeasureInput, result: MeasureResult) -> None:
        """Keep the winner of the final race beside its trial."""
        self._db.save(measure_input, result, extend=True)


class Monitor:
    """Keeps the rate and the time stamp of every trial.

    Attributes:
        scores: operations per second, 0 for failures.
        timestamps: when each trial ended, in seconds since the epoch.
    """

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(
        self, tuner: Tuner, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]
    ) -> None:
        """Record results."""
        self.scores += [tuner.flops(result) for result in results]
        self.timestamps += [result.timestamp for result in results]

    def reset(self) -> None:
        """Forget everything."""
        self.scores, self.timestamps = [], []

    def trial_scores(self) -> npt.NDArray[np.float64]:
        """Return the rates, in order."""
        return np.array(self.scores, dtype=np.float64)

    def trial_timestamps(self) -> npt.NDArray[np.float64]:
        """Return the time stamps, in order."""
        return np.array(self.timestamps, dtype=np.float64)


__all__ = ["Monitor", "log_to_database", "log_to_file", "progress_bar"]
