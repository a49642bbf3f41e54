"""The log commands: what they show, compare and draw, for people and for programs."""

import copy
import csv
import io
import json
import shlex
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from click.testing import CliRunner

from autotune.cli.main import main
from autotune.cli.tables import as_csv
from autotune.measure import MeasureResult
from autotune.measure.run.timing import costs_of, evidence_of
from autotune.record import encode, load_from_file
from autotune.runtime import summarize
from tests.cli.log_commands import CONV, GEMM, pair, rows, run
from tests.record.records import TVM_ROW, failed, good

RACE = {
    "tied": [1],
    "candidates": [{"index": 1, "seconds": 1.2e-6}, {"index": 0, "seconds": 2.4e-6}],
    "default": 0,
    "trial": 1e-6,
}


@pytest.fixture
def logs(tmp_path):
    """Two logs; in the first a race was won by the second of three, in the other all is faster."""
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    rows = [
        encode(*pair(GEMM, 0, good(2e-6, noise_floor=0.02), k=1, t=[-1, 8])),
        encode(*pair(GEMM, 1, good(1e-6), k=2, t=[-1, 8])),
        encode(*pair(GEMM, 2, good(3e-6), k=1, t=[-1, 4])),
        encode(*pair(GEMM, 3, failed(3, "no such flag\nmore"), k=2, t=[-1, 4])),
        encode(*pair(CONV, 0, good(5e-6), k=1)),
        "# race " + encode(*pair(GEMM, 1, good(1.2e-6, noise_floor=0.01, race=RACE), k=2)),
        "garbage",
    ]
    first.write_text("\n".join(rows) + "\n")
    faster = [pair(GEMM, 2, good(0.6e-6), k=1, t=[-1, 4]), pair(CONV, 0, good(5.1e-6), k=1)]
    other = pair(("dense", (3,), "llvm"), 0, good(7e-6), k=1)
    second.write_text("".join(encode(*one) + "\n" for one in [*faster, other]))
    return first, second


def test_show_counts_trials_and_gives_the_time_that_is_replayed(logs):
    gemm, conv = rows(run("show", "--json", logs[0]))
    assert (gemm["trials"], gemm["good"], gemm["index"]) == (4, 3, 1)
    assert gemm["seconds"] == pytest.approx(1.2e-6)  # of the race, not of the lucky trial
    assert gemm["default_seconds"] == pytest.approx(2.4e-6)
    assert (gemm["spread"], gemm["where"]) == (0.01, f"{logs[0]}:6")
    assert (conv["trials"], conv["spread"], conv["default_seconds"]) == (1, None, None)


def test_show_best_pick_and_diff_agree_on_the_time(logs, tmp_path):
    shown = rows(run("show", "--json", logs[0]))[0]["seconds"]
    (best, _) = rows(run("best", "--json", "--no-source", logs[0]))
    before = rows(run("diff", "--json", *logs))[0]["before_seconds"]
    run("pick", logs[0], tmp_path / "best.log")
    picked = {inp.task.name: result for inp, result in load_from_file(tmp_path / "best.log")}
    assert shown == best["seconds"] == before == picked["gemm"].seconds


def test_show_is_a_table_and_says_what_is_wrong(logs):
    text = run("show", logs[0]).output
    assert f"{logs[0]}: 5 trials of 2 workloads" in text
    assert "default us" in text
    assert "+- 1.0%" in text
    assert "1 failed: COMPILE_DEVICE no such flag\n" in text
    assert "1 of 7 records could not be read" in text


def test_several_logs_are_shown_as_one(logs):
    shown = rows(run("show", "--json", *logs))
    assert [(one["task"], one["trials"]) for one in shown] == [
        ("gemm", 5),
        ("conv", 2),
        ("dense", 1),
    ]
    assert shown[0]["seconds"] == pytest.approx(0.6e-6)  # in no race, and faster than its winner


def test_the_best_configurations_are_ranked_and_each_is_named_once(logs):
    top = rows(run("show", "--json", "--top", 9, "--task", "gemm", logs[0]))
    assert [one["index"] for one in top] == [1, 0, 2]
    assert [one["raced"] for one in top] == [True, False, False]
    text = run("show", "--top", 2, logs[0]).output
    assert "k=1, t=[-1, 8]" in text
    assert f"{logs[0]}:1" in text
    assert f"{logs[0]}:3" not in text


def test_csv_is_for_spreadsheets(logs):
    done = run("show", "--csv", "--top", 9, logs[0])
    table = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["index"] for row in table] == ["1", "0", "2", "0"]
    assert json.loads(table[1]["config"]) == {"k": 1, "t": [-1, 8]}
    assert float(table[0]["seconds"]) == pytest.approx(1.2e-6)


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t=", "\r=", " =", "\uff1d"])
def test_no_cell_of_a_csv_is_a_formula(begin):
    text = f'{begin}cmd|"/c calc"!A1'
    rows = [{"task": text, text: -1.5, "config": {"k": text}}, {"task": "gemm-1", text: None}]
    header, first, second = csv.reader(io.StringIO(as_csv(rows), newline=""))
    assert header == ["task", f"'{text}", "config"]
    assert first == [f"'{text}", "-1.5", json.dumps({"k": text})]
    assert second == ["gemm-1", "", ""]


def test_best_prints_the_configuration_and_where_it_stands(logs):
    text = run("best", "--task", "gemm", "--no-source", logs[0]).output
    assert text.startswith("gemm (64, 64) on llvm -keys=cpu\n")
    assert "best    1.200 us +- 1.0%" in text
    assert "default 2.400 us; the best is 2.00x as fast" in text
    assert f"where   {logs[0]}:6, winner of a race of 2" in text
    assert "index   1\n  k       2\n" in text


def test_best_says_why_there_is_no_source(logs):
    text = run("best", "--task", "gemm", logs[0]).output
    (line,) = [line for line in text.splitlines() if "not shown: " in line]
    assert "'gemm'" in line


def test_best_prints_the_source_of_a_template_in_a_file(tmp_path):
    file = tmp_path / "log_best_template.py"
    file.write_text(
        textwrap.dedent(
            """
            import autotune

            @autotune.template("tests/log/scale")
            def scale(n):
                cfg = autotune.get_config()
                cfg.define_knob("k", [1, 2])
                return autotune.SourceKernel(
                    "scale",
                    "void scale(const float *x, float *y) { y[0] = x[0] * K; }",
                    defines={"K": cfg["k"].val},
                    args=[autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")],
                )
            """
        )
    )
    log = tmp_path / "x.log"
    log.write_text(encode(*pair(("tests/log/scale", (4,), "llvm"), 1, good(1e-6), k=2)) + "\n")
    text = run("best", file, log).output
    assert "#define K 2" in text
    assert "void scale(const float *x, float *y)" in text
    (row,) = rows(run("best", "--json", file, log))
    assert "#define K 2" in row["source"]
    older = good(1e-6, kernel_hash="0" * 16)
    log.write_text(encode(*pair(("tests/log/scale", (4,), "llvm"), 1, older, k=2)) + "\n")
    for form in ([], ["--json"]):
        done = run("best", file, log, *form)
        assert "#define K" not in done.output
        assert "1 record is of an older kernel text, left out" in done.output
        assert "no trial of any task is of its kernel as it is now: tune it again" in done.output
        assert done.exit_code == 1

    lines = [
        encode(*pair(("tests/log/scale", (4,), "llvm"), index, older, k=k))
        for index, k in ((9, 7), (1, 2))
    ]
    log.write_text("\n".join(lines))
    said = run("best", file, log).output
    assert "x.log: 1 record is of an older kernel text, left out" in said
    assert "1 record is not in its space as it is now, left out (" in said
    assert "knob 'k' = 7 does not fit: the template offers 1, 2" in said


def test_diff_tells_what_became_faster_and_which_knobs_changed(logs):
    gemm, conv, dense = rows(run("diff", "--json", *logs))
    assert (gemm["verdict"], gemm["ratio"]) == ("faster", pytest.approx(2.0))
    assert gemm["changed"]["k"] == [2, 1]
    assert (conv["verdict"], conv["changed"]) == ("same", {})
    assert (dense["verdict"], dense["before_seconds"]) == ("only after", None)
    back = rows(run("diff", "--json", *reversed(logs)))
    assert [one["verdict"] for one in back] == ["slower", "same", "only before"]
    text = run("diff", *logs).output
    assert "k: 2 -> 1" in text
    assert "2.00x" in text


def test_plot_tells_how_a_file_to_draw_is_given(logs):
    said = run("plot", logs[0], "none.PNG")
    assert said.exit_code == 1
    assert "there is no log none.PNG; to draw that file: --out none.PNG" in said.output


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_plot_draws_a_figure_for_each_workload(logs, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    out = tmp_path / "figures" / f"x.{suffix}"
    done = run("plot", *logs, "--task", "gemm", "--out", out)
    assert done.exit_code == 0, done.output
    assert out.stat().st_size > 1000
    assert "gemm (64, 64) on llvm" in done.output
    run("plot", *logs, "--panel", "trials", "--out", out)
    assert (out.parent / f"x.000.{suffix}").exists()
    assert (out.parent / f"x.002.{suffix}").exists()


def test_what_cannot_be_drawn_is_one_message(logs, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    unknown = run("plot", logs[1], "--task", "gemm", "--out", tmp_path / "x.nonsense")
    assert unknown.exit_code == 1
    assert "cannot draw" in unknown.output
    nothing = run("plot", logs[1], "--task", "none")
    assert "there is nothing to draw" in nothing.output
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    missing = run("plot", logs[1], "--task", "gemm", "--out", tmp_path / "x.svg")
    assert "pip install 'autotune[plot]'" in missing.output


def test_nothing_a_log_says_breaks_a_command(logs, tmp_path):
    strange = json.loads(TVM_ROW)
    lines = []
    for extra in (
        {"noise_floor": "wide"},
        {"noise_floor": float("nan")},
        {"noise_floor": -1, "samples": []},
        {"race": {"candidates": [{"index": 3}], "default": 3}},
        {"race": {"candidates": [{"index": 3, "seconds": "x"}], "default": 3, "trial": []}},
    ):
        lines.append(json.dumps({**strange, **extra}))
    log = tmp_path / "strange.log"
    log.write_text("\n".join(lines) + "\n")
    for command in (["show"], ["show", "--json"], ["show", "--csv", "--top", 3], ["best"]):
        done = run(*command, log)
        assert done.exit_code == 0, done.output
    assert run("diff", log, logs[0]).exit_code == 0


def test_copy_adds_what_is_new_and_takes_nothing_but_logs(logs, tmp_path):
    first, second = map(str, logs)
    out, notes = tmp_path / "all.log", tmp_path / "notes.txt"
    notes.write_text("buy milk\n")
    refused = CliRunner().invoke(main, ["log", "copy", first, str(notes), str(out)])
    assert refused.exit_code == 1
    assert "notes.txt: its only line is not a record" in refused.output
    assert not out.exists()
    for _ in range(2):
        done = CliRunner().invoke(main, ["log", "copy", first, second, str(out)])
        assert done.exit_code == 0, done.output
    lines = [line for log in logs for line in log.read_text().splitlines()]
    assert out.read_text().splitlines() == [*dict.fromkeys(lines)]


def test_copy_to_a_full_device_says_that_it_is_full(logs):
    done = CliRunner().invoke(main, ["log", "copy", str(logs[0]), "/dev/full"])
    assert done.exit_code == 1
    assert "cannot append to the log /dev/full: No space left on device" in done.output


@pytest.mark.parametrize("command", ["copy", "pick"])
def test_what_is_written_to_standard_output_is_records_alone(logs, tmp_path, command):
    line = shlex.join([sys.executable, "-m", "autotune", "log", command, str(logs[0])])
    piped = subprocess.run(
        f"{line} /dev/stdout | cat", shell=True, capture_output=True, text=True, timeout=60
    )
    kept = tmp_path / "kept.log"
    subprocess.run(f"{line} /dev/stdout > {shlex.quote(str(kept))}", shell=True, timeout=60)
    assert len(kept.read_text().splitlines()) == len(piped.stdout.splitlines()) > 1
    assert "in /dev/stdout" not in piped.stdout + kept.read_text()
    assert "in /dev/stdout" in piped.stderr


def test_a_copy_ends_when_who_reads_it_has_enough(logs, tmp_path):
    long = tmp_path / "long.log"
    row = json.loads(logs[0].read_text().splitlines()[0])
    rows = [{**row, "error_msg": f"{number}{'x' * 500}"} for number in range(2000)]
    long.write_text("".join(json.dumps(one) + "\n" for one in rows))
    line = shlex.join([sys.executable, "-m", "autotune", "log", "copy", str(long), "/dev/stdout"])
    done = subprocess.run(
        f"{line} | head -n 1", shell=True, capture_output=True, text=True, timeout=60
    )
    assert json.loads(done.stdout)["error_msg"].startswith("0xx")
    assert done.stderr == ""


def test_an_empty_log_is_no_mistake(tmp_path):
    log = tmp_path / "empty.log"
    log.write_text("")
    assert "0 trials of 0 workloads" in run("show", log).output
    assert rows(run("show", "--json", log)) == []
    assert run("show", "--csv", log).output.strip() == ""
    assert "no trial of any task succeeded" in run("best", log).output


@pytest.mark.parametrize("command", ["show", "best"])
def test_a_task_that_no_trial_is_of_is_named_beside_those_that_are(logs, command):
    said = run(command, "--task", "gem", logs[0]).output
    assert "no trial is of task 'gem'; did you mean 'gemm'?" in said
    assert "there are trials of conv, gemm" in said


@pytest.mark.parametrize("samples", [[1e-6], [1e-6, 2e-6], [1e-6, 2e-6, 3e-6]])
def test_what_a_trial_keeps_of_its_samples_is_read_again(tmp_path, samples):
    # Of one sample, such as that of a hopeless trial, no spread is known.
    timing = summarize(samples, 1, cut_short=len(samples) == 1)
    result = MeasureResult(costs_of(timing), 0, 0.1, 1.0, "", evidence_of(timing))
    log = tmp_path / "x.log"
    log.write_text(encode(*pair(GEMM, 0, result, k=1)) + "\n")
    ((_, again),) = load_from_file(log)
    assert again == result
    assert again.spread == timing.noise_floor
    assert rows(run("show", "--json", log))[0]["seconds"] == pytest.approx(np.median(samples))


ESCAPE = "\x1b]0;owned\x07\x9b2J\u202e\r\nbest 1 us"


@pytest.fixture
def commanding(tmp_path):
    """A log with commands of a terminal wherever a text may stand."""
    row = json.loads(encode(*pair(GEMM, 0, good(2e-6), k=1)))
    rows = [copy.deepcopy(row) for _ in range(6)]
    rows[0]["config"]["entity"] = [[ESCAPE, "ot", ESCAPE], ["$k_$", "ot", "$a"]]
    rows[1]["input"][2] = [ESCAPE]
    rows[2]["input"][0] = f"c -model={ESCAPE}"
    rows[3]["input"][1] = ESCAPE
    rows[4].update(error_msg=ESCAPE, result=[[1e9], 4, 0.1, 1.0])
    rows[5]["config"] = {**row["config"], "index": 1, "entity": [["$k_$", "ot", "$b"]]}
    path = tmp_path / "commands.log"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


@pytest.mark.parametrize(
    "command",
    [("show",), ("show", "--top", "9"), ("show", "--csv"), ("show", "--json"), ("best",),
     ("best", "--csv"), ("plot", "--out", "x.svg")],
)  # fmt: skip
def test_no_text_of_a_log_commands_the_terminal(command, commanding, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run(*command, commanding)
    assert done.exit_code == 0, done.output
    assert done.output.replace("\n", "").isprintable()
    assert not any(line.startswith("best 1 us") for line in done.output.splitlines())


def test_diff_and_errors_write_commands_of_terminals_out(commanding, logs):
    for done in (run("diff", commanding, logs[0]), run("show", f"{commanding}\x1b[2J")):
        assert done.output.replace("\n", "").isprintable()


def test_a_log_without_a_success_is_drawn_beside_one_with(logs, tmp_path):
    bad = tmp_path / "bad.log"
    bad.write_text(encode(*pair(GEMM, 0, failed(3, "no"), k=1)) + "\n")
    done = run("plot", "--task", "gemm", "--out", tmp_path / "x.svg", bad, logs[0])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "x.svg").stat().st_size


@pytest.mark.parametrize(
    "command", ["log show", "log best", "report -o r.html", "verify", "import -o o.log", "serve"]
)
def test_a_path_where_no_file_can_be_is_an_error_in_one_line(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(main, [*command.split(), "x" * 300])
    assert ended.exit_code in (1, 2)
    assert "File name too long" in ended.output
    assert "Traceback" not in ended.output
    assert isinstance(ended.exception, SystemExit)
