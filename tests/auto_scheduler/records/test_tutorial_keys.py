"""Graphs built here print and hash as TVM's do: its tutorial on ResNet-18 shows 24 of them."""

import pytest

from autotune.auto_scheduler import ComputeDAG
from tests.auto_scheduler.resnet18 import build, printed_tasks

TASKS = printed_tasks()


def test_there_are_24_tasks():
    assert len(TASKS) == 24


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.digest[:8])
def test_the_text_is_the_tutorials(task):
    assert str(ComputeDAG(build(task))) == task.text


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.digest[:8])
def test_the_key_is_the_tutorials(task):
    assert ComputeDAG(build(task)).workload_key() == task.key
