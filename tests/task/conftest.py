"""What tests of tasks share."""

import pytest

from autotune.task import TASK_TABLE, DispatchContext


@pytest.fixture
def own_registry(monkeypatch):
    """Leave no template and no warning behind."""
    monkeypatch.setattr(DispatchContext, "warning_messages", set())
    before = dict(TASK_TABLE)
    yield
    TASK_TABLE.clear()
    TASK_TABLE.update(before)
