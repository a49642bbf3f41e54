"""What tests leave in temporary folders, in their process and in those that they start, goes."""

import os
import subprocess
import sys
from pathlib import Path

HOOKS = "from tests.conftest import nothing_stays_in_temporary_folders\n"
# The last is left on purpose, for the user who is told of it.
TESTS = """
import subprocess, sys, tempfile
import pytest
from autotune.errors import RecordError
from autotune.record.writer import LogWriter

def test_a_file_is_left():
    print("left:", tempfile.mkstemp()[1])

def test_a_child_leaves_a_folder():
    make = "import tempfile; print('left:', tempfile.mkdtemp())"
    subprocess.run([sys.executable, "-c", make], check=True)

def test_rows_are_rescued(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="kept in") as told:
        LogWriter(tmp_path / "file" / "x.log").write(["{}\\n"])
    print("left:", str(told.value).partition("kept in ")[2].partition(":")[0])
"""


def test_nothing_stays_in_the_temporary_folder_of_others(tmp_path):
    others, tests = tmp_path / "others", tmp_path / "tests"
    others.mkdir()
    tests.mkdir()
    (tests / "conftest.py").write_text(HOOKS)
    (tests / "test_it.py").write_text(TESTS)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}
    env |= {"PYTHONPATH": str(Path(__file__).parents[1]), "TMPDIR": str(others)}
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'base'}"],
        **{"cwd": tests, "env": env, "capture_output": True, "text": True},
    )
    assert done.returncode == 0, done.stdout
    left = [line.partition("left: ")[2] for line in done.stdout.splitlines() if "left: " in line]
    assert len(left) == 3
    assert all(Path(each).is_relative_to(others) for each in left)
    assert list(others.iterdir()) == []
