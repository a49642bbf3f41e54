"""``autotune import`` and ``export``: from files of other tuners to logs, and back."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import autotune
from autotune.cli.main import main
from autotune.record import load_from_file
from autotune.task import TASK_TABLE
from autotune.tuner import RandomTuner
from tests.record.records import make_config, make_input

DATA = Path(__file__).parents[1] / "data" / "interchange"
CACHE = DATA / "kernel_tuner" / "vector_add_c.json"


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "kt.log"
    done = run("import", CACHE, "-o", path)
    assert done.exit_code == 0, done.output
    return path


def test_what_was_imported_is_shown_best_and_drawn(log, tmp_path):
    pytest.importorskip("matplotlib")
    shown = json.loads(run("log", "show", "--json", log).output)
    assert [(one["task"], one["trials"], one["good"]) for one in shown] == [("vector_add", 4, 4)]
    assert "UNROLL       2" in run("log", "best", "--no-source", log).output
    assert run("log", "plot", log, "--out", tmp_path / "x.svg").exit_code == 0


def test_several_files_of_several_tools_become_one_log(tmp_path):
    out = tmp_path / "all.log"
    done = run("import", CACHE, DATA / "triton", DATA / "kernel_tuner" / "vector_add_killed.json",
               "-o", out)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "9 records in" in done.output
    assert "the run did not end" in done.output
    assert "does not say for which device" in done.output
    assert len(list(load_from_file(out))) == 9


def test_a_log_that_exists_is_not_replaced(log):
    before = log.read_text()
    refused = run("import", CACHE, "-o", log)
    assert refused.exit_code == 2
    assert "--append" in refused.output
    assert log.read_text() == before
    assert run("import", CACHE, "-o", log, "--append").exit_code == 0
    assert log.read_text() == before * 2


def test_a_log_of_autotune_is_not_imported(log, tmp_path):
    done = run("import", log, "-o", tmp_path / "y.log")
    assert done.exit_code == 1
    assert "it is a log of autotune, which needs no import" in done.output


def test_a_run_starts_from_what_was_imported(tmp_path):
    name, log = "tests.cli.exchange.vadd", tmp_path / "x.log"
    source = "void vadd(const float *a, float *b) { b[0] = a[0] * UNROLL / UNROLL; }\n"

    @autotune.template(name)
    def vadd(n):
        cfg = autotune.get_config()
        for knob, values in (("UNROLL", [1, 2, 4, 8]), ("BAD", [0]), ("block_size_x", [1])):
            cfg.define_knob(knob, values)
        return autotune.SourceKernel(
            "vadd", source, [autotune.arg("a", (1,)), autotune.arg("b", (1,), role="out")],
            defines={"UNROLL": cfg["UNROLL"].val},
        )  # fmt: skip

    try:
        words = ("--task", name, "--target", "c", "--args", "[65536]")
        assert run("import", CACHE, "-o", log, *words).exit_code == 0
        task = autotune.create(name, (65536,), "c")
        result = RandomTuner(task, seed=0).tune(
            4, autotune.measure_option("local", "local"), resume=log
        )
        assert (result.trials, result.resumed) == (4, 4)
    finally:
        del TASK_TABLE[name]


@pytest.mark.parametrize("args", ["{}", "7", "x", "[" * 10**5])
def test_arguments_of_a_task_are_a_json_array(args, tmp_path):
    done = run("import", CACHE, "-o", tmp_path / "x.log", "--args", args)
    assert done.exit_code == 2
    assert "JSON array" in done.output


def test_a_t1_file_is_no_file_of_results(tmp_path):
    done = run("import", DATA / "t1" / "convolution.json", "-o", tmp_path / "x.log")
    assert done.exit_code == 1
    assert "--t1" in done.output


def test_a_log_goes_to_t4_and_comes_back(log, tmp_path):
    out = tmp_path / "x.json"
    done = run("export", log, "-o", out)
    assert done.exit_code == 0, done.output
    again = tmp_path / "again.log"
    assert run("import", out, "-o", again).exit_code == 0
    first, second = ([r.seconds for _, r in load_from_file(path)] for path in (log, again))
    assert second == pytest.approx(first)


def test_each_workload_is_exported_to_a_file_of_its_own(log, tmp_path):
    assert run("import", DATA / "triton", "-o", log, "--append").exit_code == 0
    done = run("export", log, "-o", tmp_path / "x.json")
    assert done.exit_code == 0, done.output
    assert len(json.loads((tmp_path / "x.000.json").read_text())["results"]) == 4
    assert "add_kernel" in (tmp_path / "x.001.json").read_text()
    assert run("export", log, "-o", tmp_path / "y.json", "--task", "vector_add").exit_code == 0
    assert (tmp_path / "y.json").exists()
    nothing = run("export", log, "-o", tmp_path / "z.json", "--task", "none")
    assert nothing.exit_code == 1
    assert not (tmp_path / "z.json").exists()


def test_winners_of_races_are_no_results_of_their_own(tmp_path):
    from autotune.measure import MeasureResult
    from autotune.record import RACE_NOTE, encode

    inp = make_input("gemm", (1,), "c", make_config(0, k=1))
    row = encode(inp, MeasureResult((1e-6,), 0, 0.1, 1.7e9))
    log = tmp_path / "x.log"
    log.write_text(f"{row}\n{RACE_NOTE}{row}\n")
    assert run("export", log, "-o", tmp_path / "x.json").exit_code == 0
    assert len(json.loads((tmp_path / "x.json").read_text())["results"]) == 1
