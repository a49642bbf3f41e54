"""Of tests that are marked as having many cases some run, unless they are named."""

import functools
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

@pytest.mark.many_cases
@pytest.mark.parametrize("i", range(5))
@pytest.mark.parametrize("dtype", ["float16", "int8"])
@pytest.mark.parametrize(("a", "b"), [(0, "x"), (1, "x"), (2, "y"), (3, "y"), (4, "z"), (5, "z")])
def test_several(i, dtype, a, b):
    pass

@pytest.mark.parametrize("i", range(20))
def test_all(i):
    pass
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("sampled")
    (tmp_path / "conftest.py").write_text(HOOKS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = many_cases")
    (tmp_path / "test_it.py").write_text(TESTS)
    root = str(Path(__file__).parents[1])
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "COV_"))}

    @functools.cache
    def ran(*args):
        """Returns the cases of each test that ran, by the name of the test."""
        command = [sys.executable, "-m", "pytest", "-v", "--tb=no", "--color=no", *args]
        said = subprocess.run(
            command, cwd=tmp_path, env=env | {"PYTHONPATH": root}, capture_output=True, text=True
        ).stdout
        lines = [each for each in said.splitlines() if "%]" in each]
        names = [line.split("::")[1].split()[0].rstrip("]").split("[") for line in lines]
        cases = [(test, int(i) if i.isdecimal() else i) for test, i in names]
        return {test: sorted(i for t, i in cases if t == test) for test, _ in cases}

    return ran


def test_one_case_in_ten_runs_and_always_the_first_and_another(run):
    cases = run()
    assert len(cases["test_many"]) == 6
    assert cases["test_many"][0] == 0
    assert cases["test_two"] == [0, 1]
    assert cases["test_all"] == list(range(20))


def test_every_value_that_many_cases_share_is_in_one_that_runs(run):
    cases = [case.split("-") for case in run()["test_several"]]
    assert len(cases) == 6
    a, b, dtype, i = map(set, zip(*cases, strict=True))
    assert a == set("012345")
    assert b == set("xyz")
    assert dtype == {"float16", "int8"}
    assert i == set("01234")


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


def test_few_cases_of_every_test_run_where_that_is_asked_for(run):
    cases = run("--few-cases")
    assert len(cases["test_all"]) == 2
    assert cases["test_many"] == run()["test_many"]
