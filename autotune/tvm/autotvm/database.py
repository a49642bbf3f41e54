"""AutoTVM's `database`."""

from typing import TYPE_CHECKING

from autotune.record import Database, DummyDatabase, SqliteDatabase, filter_inputs
from autotune.tvm.names import resolver

__all__ = ["Database", "DummyDatabase", "SqliteDatabase", "filter_inputs"]

if not TYPE_CHECKING:
    __getattr__ = resolver(__name__)
