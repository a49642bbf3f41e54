"""Temporary folders of a process go with it, or soon after it if it was killed."""

import os
import subprocess
import sys
import time

import pytest

from autotune.utils import scratch

MADE = {
    "for a block": "block = temporary_folder('one'); left = block.__enter__()",
    "for as long as it is needed": "left = kept_folder('one')",
}
SCRIPT = """
import os, sys
from autotune.utils.scratch import kept_folder, temporary_folder
{}
open(left + "/file", "w").close()
print(left, flush=True)
{}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def left_by(made, ending):
    text = SCRIPT.format(MADE[made], ending)
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


@pytest.mark.parametrize("made", MADE)
def test_what_a_killed_process_left_is_removed_by_the_next_one(made, folder):
    left = left_by(made, "os.kill(os.getpid(), 9)")
    assert os.path.exists(f"{left}/file")
    (outer,) = folder.iterdir()
    os.utime(outer, times=(time.time() - 3600,) * 2)
    assert left_by(made, "") != left
    assert list(folder.iterdir()) == []


def test_what_a_living_process_holds_stays(folder):
    with scratch.temporary_folder("mine") as mine:
        os.utime(mine, times=(time.time() - 3600,) * 2)
        left_by("for a block", "")
        assert os.path.isdir(mine)
    assert list(folder.iterdir()) == []


def test_many_kept_folders_cost_one_descriptor(folder):
    scratch.kept_folder("first")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        scratch.kept_folder("other")
    assert len(os.listdir("/proc/self/fd")) == before
