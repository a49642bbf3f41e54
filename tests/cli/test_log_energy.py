"""Energy in the log commands: the best by it, and the Pareto front."""

import csv
import io
import json

import pytest
from click.testing import CliRunner

from autotune.cli.main import main
from autotune.record import encode, to_dataframe
from tests.record.records import good, make_config, make_input


def record(index, seconds, joules=None, task="gemm"):
    energy = {} if joules is None else {"energy": {"joules": joules, "watts": joules / seconds}}
    inp = make_input(task, (64,), "llvm", make_config(index, k=index))
    return encode(inp, good(seconds, **energy)) + "\n"


@pytest.fixture
def log(tmp_path):
    """The fastest takes the most; the third is beaten in both, and of one nothing is known."""
    path = tmp_path / "a.log"
    costs = [(1e-6, 4e-3), (2e-6, 1e-3), (3e-6, 2e-3), (0.5e-6, None), (1.5e-6, 3e-3)]
    rows = [record(index, *one) for index, one in enumerate(costs)]
    path.write_text("".join([*rows, record(0, 1e-6, task="conv")]))
    return path


def run(*args):
    return CliRunner().invoke(main, ["log", *(str(arg) for arg in args)])


def rows(done):
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_front_is_printed_the_fastest_first(log):
    found = rows(run("pareto", "--json", log))
    assert [one["index"] for one in found] == [0, 4, 1]
    assert [one["joules"] for one in found] == [4e-3, 3e-3, 1e-3]
    assert found[0]["watts"] == pytest.approx(4000)
    table = csv.DictReader(io.StringIO(run("pareto", "--csv", log).stdout))
    assert [one["index"] for one in table] == ["0", "4", "1"]
    text = run("pareto", log).stdout
    assert "gemm" in text
    assert "conv" not in text
    assert "4.00 mJ" in text


def test_races_of_times_are_not_on_the_front_and_a_default_that_won_is(log):
    inp = make_input("gemm", (64,), "llvm", make_config(0, k=0))
    energy = {"joules": 4e-3, "watts": 4000.0}
    race = {"tied": [0], "candidates": [{"index": 0}]}
    with log.open("a") as file:
        file.write("# race " + encode(inp, good(0.9e-6, energy=energy, race=race)) + "\n")
        file.write("# race " + record(7, 5e-6, 0.5e-3))
    assert [one["index"] for one in rows(run("pareto", "--json", log))] == [0, 4, 1, 7]


def test_a_log_without_energy_has_no_front(log):
    done = run("pareto", "--task", "conv", log)
    assert done.exit_code == 0
    assert "no record has its energy: tune with LocalRunner(energy=True)" in done.stderr


@pytest.mark.parametrize(("objective", "index"), [("time", 3), ("energy", 1), ("edp", 1)])
def test_the_best_is_by_the_objective(log, tmp_path, objective, index):
    options = ["--objective", objective, "--task", "gemm"]
    (best,) = rows(run("best", "--no-source", "--json", *options, log))
    (shown,) = rows(run("show", "--json", *options, log))
    assert best["index"] == shown["index"] == index
    out = tmp_path / "out.log"
    assert run("pick", "--objective", objective, log, out).exit_code == 0
    assert rows(run("show", "--json", "--task", "gemm", out))[0]["index"] == index


def test_energy_is_shown_where_it_is_known(log):
    assert "default us   energy" not in run("show", "--task", "conv", log).stdout
    text = run("show", "--top", "9", "--objective", "energy", "--task", "gemm", log).stdout
    assert "1.00 mJ" in text
    assert "500" in text  # watts
    best = run("best", "--no-source", "--objective", "energy", "--task", "gemm", log).stdout
    assert "  energy 1.00 mJ, at 500 W\n" in best


def test_no_best_says_that_energy_is_missing(log):
    text = run("best", "--no-source", "--objective", "energy", "--task", "conv", log).stdout
    assert "no trial of conv succeeded, with its energy measured" in text


def test_a_data_frame_has_energy_and_power(log):
    pytest.importorskip("pandas")
    frame = to_dataframe(log)
    assert frame["joules"].notna().sum() == 4
    assert frame["watts"][1] == pytest.approx(500)
