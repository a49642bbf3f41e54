"""Temporary folders go with their owners."""

import os
import subprocess
import sys
import time

import pytest

from autotune.errors import MeasureError
from autotune.measure.process.scratch import Scratch

LEAVE = """
import os, sys
from autotune.measure.process.scratch import Scratch
kept = Scratch("left", sys.argv[1])
print(kept.path, flush=True)
os.kill(os.getpid(), 9)
"""


def age(folder):
    os.utime(folder, times=(time.time() - 3600,) * 2)


def test_the_next_owner_removes_what_a_killed_one_left(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", LEAVE, tmp_path], capture_output=True, text=True, check=False
    )
    (left,) = tmp_path.iterdir()
    assert done.stdout.strip() == str(left)
    age(left)
    scratch = Scratch("mine", str(tmp_path))
    mine = scratch.path
    assert list(tmp_path.iterdir()) == [mine]
    scratch.remove()
    assert not list(tmp_path.iterdir())


def test_what_is_in_use_or_just_made_or_not_ours_stays(tmp_path):
    first = Scratch("first", str(tmp_path))
    age(first.path)
    (tmp_path / "autotune-scratch-young").mkdir()
    (tmp_path / "something").mkdir()
    age(tmp_path / "something")
    second = Scratch("second", str(tmp_path))
    second.path.joinpath("file").touch()
    assert first.path.is_dir()
    assert len(list(tmp_path.iterdir())) == 4
    first.remove()
    second.remove()
    assert len(list(tmp_path.iterdir())) == 2


def test_after_the_end_there_is_no_other_and_what_a_late_thread_wrote_goes_too(tmp_path):
    scratch = Scratch("mine", str(tmp_path))
    path = scratch.path
    scratch.end()
    assert not path.exists()
    with pytest.raises(MeasureError, match="'mine': their owner was ended"):
        scratch.folder("tmp")
    path.mkdir()
    path.joinpath("file").touch()
    scratch.end()
    assert list(tmp_path.iterdir()) == []
