"""Logs of trials: the line codec, reading and appending, databases, and the best of history."""

from autotune.measure.types import Pair
from autotune.record.best import best_of, best_of_each, is_race
from autotune.record.codec import AUTOTVM_LOG_VERSION, decode, encode, measure_str_key
from autotune.record.database import Database, DummyDatabase, SqliteDatabase, filter_inputs
from autotune.record.frame import to_dataframe
from autotune.record.history import ApplyHistoryBest
from autotune.record.reader import RACE_NOTE, LogReader, load_from_buffer, load_from_file
from autotune.record.tools import compact, pick_best, split_workload, write_log
from autotune.record.writer import LogWriter

apply_history_best = ApplyHistoryBest

__all__ = [
    "AUTOTVM_LOG_VERSION",
    "RACE_NOTE",
    "ApplyHistoryBest",
    "Database",
    "DummyDatabase",
    "LogReader",
    "LogWriter",
    "Pair",
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
    "pick_best",
    "split_workload",
    "to_dataframe",
    "write_log",
]
