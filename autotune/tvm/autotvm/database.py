"""AutoTVM's `database`."""

from autotune.record import Database, DummyDatabase, SqliteDatabase, filter_inputs

__all__ = ["Database", "DummyDatabase", "SqliteDatabase", "filter_inputs"]
