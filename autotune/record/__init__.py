"""Logs of trials: the line codec, reading and appending, databases, and the best of history.

`encode` and `decode` are the codec of a line, `LogReader` and `LogWriter` read and append, a
`Database` keeps records elsewhere (`open_database`), and `apply_history_best` gives templates the
best configurations.
"""

from autotune.measure.types import Pair
from autotune.record.best import best_of, best_of_each, is_race
from autotune.record.codec import AUTOTVM_LOG_VERSION, decode, encode, measure_str_key
from autotune.record.compaction import compact, pick_best, split_workload, write_log
from autotune.record.database import RACE_NOTE, Database, DummyDatabase, filter_inputs
from autotune.record.frame import to_dataframe
from autotune.record.history import ApplyHistoryBest
from autotune.record.log_database import FolderDatabase, LogDatabase
from autotune.record.pareto import pareto_front
from autotune.record.reader import LogReader, load_from_buffer, load_from_file
from autotune.record.sql_database import SqlDatabase, SqliteDatabase
from autotune.record.store import open_database
from autotune.record.writer import LogWriter

apply_history_best = ApplyHistoryBest

__all__ = [
    "AUTOTVM_LOG_VERSION",
    "RACE_NOTE",
    "ApplyHistoryBest",
    "Database",
    "DummyDatabase",
    "FolderDatabase",
    "LogDatabase",
    "LogReader",
    "LogWriter",
    "Pair",
    "SqlDatabase",
    "SqliteDatabase",
    "apply_history_best",
    "best_of",
    "best_of_each",
    "compact",
    "decode",
    "encode",
    "filter_inputs",
    "is_race",
    "load_from_buffer",
    "load_from_file",
    "measure_str_key",
    "open_database",
    "pareto_front",
    "pick_best",
    "split_workload",
    "to_dataframe",
    "write_log",
]
