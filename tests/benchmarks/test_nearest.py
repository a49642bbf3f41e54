"""What `benchmarks.nearest` draws, says and races; in the emulator."""

import random

import autotune.templates
import numpy as np
import pytest

import autotune
from autotune.record import write_log
from benchmarks import nearest
from tests.record.records import good

TARGET = "cuda -emulate"


@pytest.fixture
def log(tmp_path):
    """Return a log of one softmax, whose record is not the default."""
    task = autotune.create("softmax.cuda", args=(64, 128), target=TARGET)
    default = task.default().index
    drawn = task.config_space.sample(2, np.random.default_rng(0))
    index = next(each for each in drawn if each != default)
    inp = autotune.MeasureInput(task.target, task, task.config_space.get(index))
    path = tmp_path / "softmax.log"
    write_log(path, [(inp, good(1e-6))])
    return path


def run(*argv, capsys):
    nearest.main([str(each) for each in argv])
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("seed", range(20))
def test_one_to_three_extents_change_and_nothing_else_does(seed):
    args = (1, 28, 28, 128, 128, 3, 3, 1, 1, True, "relu")
    changed = nearest.changed(args, random.Random(seed))
    differ = [(a, b) for a, b in zip(args, changed, strict=True) if a != b]
    assert 1 <= len(differ) <= 3
    for a, b in differ:
        assert (a == 28 and b in (26, 27, 29, 31)) or (a == 128 and b in (80, 96, 160, 192))


def test_the_pack_that_ships_is_drawn_around_without_a_device(capsys):
    first, *rest = run("--list", "--count", 16, capsys=capsys)
    assert "raced" in first
    assert rest
    assert all(": record of (" in line for line in rest)
    assert run("--list", "--count", 16, capsys=capsys) == [first, *rest]


def test_records_are_raced_against_defaults_where_they_are_other_kernels(log, capsys):
    target = ("--target", TARGET, "--rounds", 7)
    found = run("--log", log, *target, "--count", 3, "--seed", 0, capsys=capsys)
    assert "raced" in found[0]
    assert any("default" in line and "(of (64, 128))" in line for line in found)
    assert found[-1].startswith("| all | ")
    assert found[-2].startswith("| softmax.cuda | ")


def test_kernels_that_differ_are_no_race():
    class Side:
        def microseconds(self):
            return 1.0

    with pytest.raises(ArithmeticError, match=r"differ by 1.0e\+00 of the largest"):
        nearest.raced([(Side(), np.ones(4)), (Side(), np.zeros(4))], rounds=2)


def test_a_table_has_geometric_means():
    table = list(nearest.table({"a": [0.5, 2.0], "b": [4.0], "c": []}))
    assert table[2] == "| a | 2 | 1.000 | 0.50 | 2.00 |"
    assert table[-1] == "| all | 3 | 1.587 | 0.50 | 4.00 |"
    assert len(table) == 5
