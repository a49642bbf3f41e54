"""The example programs run as they are, in an empty folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))
# What reads a log needs one; what goes on needs to be started twice.
BEFORE = {
    "read_a_log.py": "first_template.py", "use_the_best.py": "first_template.py",
    "resume.py": "resume.py",
}  # fmt: skip
PRINTS = {
    "first_template.py": "best: ",
    "te_template.py": "for i.outer in 0..",
    "resume.py": "4 known, 6 in all",
    "own_tuner.py": "best: ",
    "own_callback.py": "ended: ",
    "read_a_log.py": " us ('example.scale', 1000)",
    "use_the_best.py": "right: [0. 2. 4. 6.]",
}


MORE = {"resume.py": ["6"]}


def run(name, folder, *args):
    """Runs a program as its docstring says; returns what it prints."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES.parent), str(EXAMPLES)])}
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *args],
        cwd=folder, env=env, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs_and_shows_what_it_says(name, tmp_path):
    if name in BEFORE:
        run(BEFORE[name], tmp_path)
    assert PRINTS[name] in run(name, tmp_path, *MORE.get(name, []))


def test_the_list_of_examples_is_whole():
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert all(f"[{name}]({name})" in listed for name in PROGRAMS)
