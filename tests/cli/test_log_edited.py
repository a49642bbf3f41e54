"""The log commands leave out what an edited kernel's later trials replaced."""

import pytest

import autotune
from autotune.cli.modules import import_templates
from autotune.driver import kernel_hash
from autotune.measure import MeasureInput
from autotune.record import encode, load_from_file
from tests.cli.log_commands import GEMM, pair, rows, run
from tests.record.records import good


def test_what_an_edited_kernel_replaced_is_neither_shown_nor_picked_nor_compared(tmp_path):
    log, best = tmp_path / "a.log", tmp_path / "best.log"
    older = [pair(GEMM, i, good((2 + i) * 1e-6, kernel_hash=f"older{i}"), k=i) for i in (0, 1)]
    newer = [pair(GEMM, i, good((6 - i) * 1e-6, kernel_hash=f"newer{i}"), k=i) for i in (0, 1)]
    log.write_text("".join(encode(*one) + "\n" for one in [*older, *newer]))
    (only,) = rows(run("show", log, "--json"))
    assert (only["trials"], only["seconds"]) == (2, pytest.approx(5e-6))
    assert "a.log: 2 records are of an older kernel text, left out" in run("show", log).output
    assert run("pick", log, best).exit_code == 0
    assert [inp.config["k"].val for inp, _ in load_from_file(best)] == [1]
    (compared,) = rows(run("diff", best, log, "--json"))
    assert compared["after_seconds"] == pytest.approx(5e-6)


def edited(index, cost, text, when, **extra):
    return pair(GEMM, index, good(cost, timestamp=when, kernel_hash=text, **extra), k=index)


def written(path, *pairs):
    path.write_text("".join(f"{note}{encode(*one)}\n" for note, one in pairs))
    return path


def test_of_a_kernel_that_was_edited_back_all_trials_count(tmp_path):
    trials = [edited(0, 1e-6, "aa", 1), edited(0, 3e-6, "bb", 2), edited(0, 2e-6, "aa", 3)]
    log = written(tmp_path / "a.log", *(("", one) for one in trials))
    (only,) = rows(run("show", log, "--json"))
    assert (only["trials"], only["seconds"]) == (2, pytest.approx(1e-6))


def test_what_is_older_is_told_by_its_time_in_whatever_order_logs_are_joined(tmp_path):
    older = written(tmp_path / "older.log", ("", edited(0, 1e-6, "aa", 1)))
    newer = written(tmp_path / "newer.log", ("", edited(0, 3e-6, "bb", 2)))
    best = tmp_path / "best.log"
    for log in (newer, older):
        done = run("pick", log, best)
        assert done.output.startswith("1 best record in")
    assert [result.costs for _, result in load_from_file(best)] == [(3e-6,)]
    done = run("show", newer, older)
    assert "older.log: 1 record is of an older kernel text, left out" in done.output
    assert rows(run("show", older, newer, "--json"))[0]["seconds"] == pytest.approx(3e-6)


def test_picking_says_what_was_edited_since(tmp_path, caplog):
    log = written(
        tmp_path / "a.log", ("", edited(0, 1e-6, "aa", 1)), ("", edited(0, 2e-6, "bb", 2))
    )
    run("pick", log, tmp_path / "best.log")
    assert "1 record is of an older kernel text, left out" in caplog.text


def test_notes_of_races_are_not_counted_among_the_trials_that_are_left_out(tmp_path):
    race = {"candidates": [{"index": 0, "seconds": 1e-6}]}
    older = ("", edited(0, 1e-6, "aa", 1)), ("# race ", edited(0, 1e-6, "aa", 2, race=race))
    log = written(tmp_path / "a.log", *older, ("", edited(0, 2e-6, "bb", 3)))
    assert "a.log: 1 record is of an older kernel text, left out" in run("show", log).output


def test_a_race_with_an_older_text_does_not_decide(tmp_path):
    race = {"candidates": [{"index": i, "seconds": (i + 1) * 1e-6} for i in (0, 1)]}
    first = [("", edited(i, (i + 2) * 1e-6, f"aa{i}", 1)) for i in (0, 1)]
    won = "# race ", edited(0, 1e-6, "aa0", 2, race=race)
    log = written(tmp_path / "a.log", *first, won, ("", edited(1, 1.5e-6, "bb1", 3)))
    assert rows(run("show", log, "--json"))[0]["index"] == 1


def test_a_file_for_each_workload_has_the_latest_text_of_each_configuration(tmp_path):
    log = written(
        tmp_path / "a.log", ("", edited(0, 1e-6, "aa", 1)), ("", edited(0, 2e-6, "bb", 2))
    )
    run("split", log)
    assert [one.costs for _, one in load_from_file(f"{log}.000.wkl")] == [(2e-6,)]


KERNEL = """
import autotune

@autotune.template("edited.copy")
def copy(n):
    cfg = autotune.get_config()
    cfg.define_knob("step", [1, 2])
    text = "void copy(const float* x, float* y) { for (int i = 0; i < 8; ++i) y[i] = x[i]; }"
    args = [autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")]
    return autotune.SourceKernel("copy", source=text, defines={"STEP": cfg["step"].val}, args=args)
"""


def test_the_template_where_it_is_given_tells_which_kernel_is_the_present_one(tmp_path):
    (tmp_path / "edited_copy.py").write_text(KERNEL)
    import_templates((), [tmp_path / "edited_copy.py"])
    task = autotune.create("edited.copy", args=(8,), target="llvm")
    config = task.config_space.get(0)
    present = kernel_hash(task.instantiate(config), task.target)
    inp = MeasureInput(task.target, task, config)
    trials = [
        (inp, good(cost, timestamp=when, kernel_hash=text))
        for cost, when, text in ((3e-6, 1, present), (1e-6, 2, "0" * 16))
    ]
    log = written(tmp_path / "a.log", *(("", one) for one in trials))
    (alone,) = rows(run("best", log, "--json", "--no-source"))
    (asked,) = rows(run("best", tmp_path / "edited_copy.py", log, "--json"))
    (bare,) = rows(run("best", tmp_path / "edited_copy.py", log, "--json", "--no-source"))
    assert (alone["line"], asked["line"], bare["line"]) == (2, 1, 1)
    assert "STEP" in asked["source"]
