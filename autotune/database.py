"""AutoTVM's name for the place of the databases."""

from typing import TYPE_CHECKING

from autotune.migration import resolver
from autotune.record.database import Database, DummyDatabase, SqliteDatabase, filter_inputs

__all__ = ["Database", "DummyDatabase", "SqliteDatabase", "filter_inputs"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
