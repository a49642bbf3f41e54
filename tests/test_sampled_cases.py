"""Of tests that are marked as having many cases some run, unless they are named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOOKS = "from tests.conftest import pytest_addoption, pytest_collection_modifyitems\n"
TESTS = """
import pytest

@pytest.mark.many_cases
@pytest.mark.parametrize("i", range(60))
def test_many(i):
    assert i not in (0, 41, 42, 43, 44, 45)

@pytest.mark.many_cases
@pytest.mark.parametrize("i", range(2))
def test_two(i):
    pass

@pytest.mark.parametrize("i", range(20))
def test_all(i):
    pass
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "conftest.py").write_text(HOOKS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = many_cases")
    (tmp_path / "test_it.py").write_text(TESTS)
    root = str(Path(__file__).parents[1])
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}

    def ran(*args):
        """Returns the cases of each test that ran, by the name of the test."""
        command = [sys.executable, "-m", "pytest", "-v", "--tb=no", "--color=no", *args]
        said = subprocess.run(
            command, cwd=tmp_path, env=env | {"PYTHONPATH": root}, capture_output=True, text=True
        ).stdout
        lines = [each for each in said.splitlines() if "%]" in each]
        names = [line.split("::")[1].split()[0].rstrip("]").split("[") for line in lines]
        return {test: sorted(int(i) for t, i in names if t == test) for test, _ in names}

    return ran


def test_one_case_in_six_runs_and_always_the_first(run):
    cases = run()
    assert 4 <= len(cases["test_many"]) <= 20
    assert cases["test_many"][0] == 0
    assert cases["test_two"][0] == 0
    assert cases["test_all"] == list(range(20))


def test_cases_that_are_named_run(run):
    failing = [41, 42, 43, 44, 45]
    names = [f"test_it.py::test_many[{number}]" for number in failing]
    assert run(*names) == {"test_many": failing}
    assert run("-k", "test_many and 4") == {"test_many": [4, 14, 24, 34, *range(40, 50), 54]}


def test_all_run_where_that_is_said_and_all_that_failed_run_again(run):
    cases = run("--all-cases")
    assert cases["test_many"] == list(range(60))
    assert cases["test_two"] == [0, 1]
    again = run("--last-failed", "--last-failed-no-failures", "none")
    assert again == {"test_many": [0, 41, 42, 43, 44, 45]}
