"""`autotune verify`: which records it measures again, how, and what it says of them.

Records are given times of a second or of a picosecond, so that no noise decides a verdict.
"""

import json
import re

import autotune.templates
import pytest
from click.testing import CliRunner

import autotune.task as at
from autotune.cli import verify as command
from autotune.cli.main import main
from autotune.kernel import SourceKernel, arg
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    measure_option,
)
from autotune.measure.final.recheck import Recheck, verdict
from autotune.record import encode
from autotune.tuner import GridSearchTuner, callback
from tests.measure import kernels  # noqa: F401 - registers the templates

SCALE = ("measure_test.scale", (64, 8))
SLOW, FAST = 1.0, 1e-12


@at.template("verify_test.unknown")
def unknown(n):
    """A kernel without a reference."""
    at.get_config().define_knob("knob", [0, 1])
    source = "void copy(const float *x, float *y) { for (int i = 0; i < 64; i++) y[i] = x[i]; }"
    args = [arg("x", (n,)), arg("y", (n,), role="out")]
    return SourceKernel("copy", source, args, language="c")


def pair(task, index, seconds, **extra):
    task = at.create(*task, target="c")
    inp = MeasureInput(task.target, task, task.config_space.get(index))
    return inp, MeasureResult((seconds,), 0, 0.1, 1.0, "", extra)


def verify(path, *args):
    options = ["--module", "tests.measure.kernels", "--module", "autotune.templates"]
    return CliRunner().invoke(main, ["verify", str(path), *options, *map(str, args)])


@pytest.fixture
def verified(tmp_path):
    """Return how to write a log and verify it."""

    def run(*rows, options=()):
        log = tmp_path / "x.log"
        log.write_text("".join(f"{r if isinstance(r, str) else encode(*r)}\n" for r in rows))
        return verify(log, *options)

    return run


def lines(result):
    """Return what is said of the records, without the total and what is said of the host."""
    said = result.output.splitlines()[:-1]
    return [line for line in said if not line.startswith("the host is busy")]


def words(result):
    """Return the first word of each line."""
    return [line.split()[0] for line in lines(result)]


def numbers(result):
    """Return the configurations that were measured again."""
    return [int(line.rpartition("#")[2]) for line in lines(result)]


def test_a_record_that_tuning_wrote_is_measured_again(tmp_path):
    log = tmp_path / "log.json"
    task = autotune.task.create("softmax.cpu", (64, 100), "llvm")
    option = measure_option(LocalBuilder(), LocalRunner(number=20))
    GridSearchTuner(task).tune(1, option, callbacks=[callback.log_to_file(str(log))])
    row = json.loads(log.read_text().splitlines()[0])
    row["result"][0] = [SLOW]
    log.write_text(json.dumps(row) + "\n")
    result = verify(log)
    assert result.exit_code == 0
    # On a busy host the noise may be more than all of it.
    assert re.match(r"(faster|confirmed) +1000000.000 us then ", result.output)
    assert "answer checked     softmax.cpu (64, 100) #0" in result.output
    assert re.search(r" -(9\d\.\d|100\.0)%, (beyond|within) (5%|noise of )", result.output)
    assert result.output.endswith("\n1 of 1 records hold, 1 of them with a checked answer\n")


def test_a_time_that_no_longer_holds_ends_with_status_1(verified):
    result = verified(pair(SCALE, 0, FAST))
    assert words(result) == ["slower"]
    assert result.output.endswith("\n0 of 1 records hold, 0 of them with a checked answer\n")
    assert result.exit_code == 1


def test_the_best_of_each_task_is_measured_or_every_record(verified):
    rows = [
        pair(SCALE, 0, 3 * SLOW),
        pair(SCALE, 1, 1 * SLOW),
        pair(SCALE, 2, 2 * SLOW),
        pair(("measure_test.scale", (32, 8)), 4, SLOW),
    ]
    best = verified(*rows)
    assert numbers(best) == [1, 4]
    assert best.exit_code == 0
    every = verified(*rows, options=["--every"])
    assert numbers(every) == [0, 1, 2, 4]
    assert every.exit_code == 0


def test_the_winner_of_a_race_is_measured_and_not_the_luckiest_trial(verified):
    lucky, trial = pair(SCALE, 0, 1 * SLOW), pair(SCALE, 1, 2 * SLOW)
    race = {"tied": [1], "candidates": [{"index": 0}, {"index": 1}]}
    winner = "# race " + encode(*pair(SCALE, 1, 2 * SLOW, race=race, median=2 * SLOW))
    assert numbers(verified(lucky, trial)) == [0]
    assert numbers(verified(lucky, trial, winner)) == [1]
    assert numbers(verified(lucky, trial, winner, options=["--every"])) == [0, 1]


def test_every_answer_is_checked_however_slow(verified):
    # The second is a hundred times slower than the first, so tuning need not look at its answer.
    faults = ("measure_test.faulty", (["none", "slow", "wrong"],))
    space = at.create(*faults, target="c").config_space
    index = {space.get(i)["fault"].val: i for i in range(3)}
    rows = [pair(faults, index[fault], SLOW) for fault in ("none", "slow", "wrong")]
    result = verified(*rows, options=["--every"])
    assert words(result) == ["faster", "faster", "wrong"]
    assert result.output.count("answer checked") == 2
    assert result.output.endswith("\n2 of 3 records hold, 2 of them with a checked answer\n")
    assert result.exit_code == 1


def test_rows_for_programs_say_the_same_and_end_with_the_same_status(verified):
    faults = ("measure_test.faulty", (["none", "slow", "wrong"],))
    rows = [pair(SCALE, 0, SLOW), *(pair(faults, i, SLOW) for i in range(3))]
    options = ["--every", "--json", "--task", "measure_test.faulty"]
    result = verified(*rows, options=options)
    assert result.exit_code == 1
    shown = json.loads(result.stdout)
    assert {row["task"] for row in shown} == {"measure_test.faulty"}
    assert sorted(row["verdict"] for row in shown) == ["faster", "faster", "wrong"]
    (wrong,) = [row for row in shown if not row["holds"]]
    assert wrong["error"] == "WRONG_ANSWER"
    assert "differ from the reference" in wrong["error_msg"]
    assert wrong["now_seconds"] is wrong["change"] is None
    good = next(row for row in shown if row["holds"])
    assert good["then_seconds"] == SLOW > good["now_seconds"] > 0
    assert good["checked"]
    assert good["error"] is None


def test_a_task_that_the_log_lacks_is_named(verified):
    result = verified(pair(SCALE, 0, SLOW), options=["--task", "softmax"])
    assert result.exit_code == 1
    assert "no trial is of task 'softmax'; there are trials of measure_test.scale" in result.output


def test_a_task_whose_kernel_has_changed_since_does_not_hold(verified):
    older = pair(SCALE, 0, SLOW, kernel_hash="0" * 12)
    other = pair(("verify_test.unknown", (64,)), 0, SLOW)
    result = verified(older, other)
    assert result.exit_code == 1
    assert words(result)[-2:] == ["faster", "outdated"]
    assert "no record is of its kernel as it is now; tune it again" in result.output
    assert result.output.endswith("\n1 of 2 records hold, 0 of them with a checked answer\n")
    assert verified(older, pair(SCALE, 1, SLOW), other).exit_code == 0


def test_a_task_whose_template_must_not_be_run_is_not_called_out_of_date(verified):
    inp, measured = pair(("verify_test.unknown", (64,)), 0, SLOW)
    strange = at.Task("verify_test.unknown", ("f();",), inp.target)
    result = verified(pair(SCALE, 0, SLOW), (inp._replace(task=strange), measured))
    assert result.exit_code == 1
    assert "an argument of the task is a text that could be code" in result.output
    assert "tune it again" not in result.output


def test_an_answer_that_nobody_knows_is_shown_as_unchecked(verified):
    result = verified(pair(("verify_test.unknown", (64,)), 0, SLOW))
    assert "answer unchecked" in result.output
    assert result.output.endswith("\n1 of 1 records hold, 0 of them with a checked answer\n")


def test_how_to_build_and_run_is_passed_on(verified, monkeypatch):
    made = []

    def spy(kind):
        def make(*args, **options):
            made.append((kind, args, options))
            return kind(*args, **options)

        return make

    monkeypatch.setattr(command, "LocalBuilder", spy(LocalBuilder))
    monkeypatch.setattr(command, "LocalRunner", spy(LocalRunner))
    record = pair(SCALE, 0, SLOW, flush=True, min_repeat_ms=3)
    assert verified(record, options=["--timeout", 7, "--run-timeout", 8]).exit_code == 0
    (builder, given, _), (runner, limits, options) = sorted(made, key=lambda m: m[0].__name__)
    assert (builder, given, runner, limits) == (LocalBuilder, (7.0,), LocalRunner, (8.0,))
    assert options == {
        "repeat": 9,
        "device": 0,
        "verify": "all",
        "enable_cpu_cache_flush": True,
        "flush_l2": True,
        "use_graph": None,
        "min_repeat_ms": 3,
    }
    refused = verified(record, options=["--device", 1])
    assert refused.exit_code == 1
    assert "runs on the CPU, which is device 0; got device 1" in refused.output


def change_in_words(now, noise=None, ci95=None):
    inp, before = pair(SCALE, 0, 1e-3, noise_floor=0.02, ci95=[0.9e-3, 1.1e-3])
    known = {"noise_floor": noise, "ci95": ci95}
    after = pair(SCALE, 0, now, **{name: one for name, one in known.items() if one})[1]
    one = Recheck(inp, before, after, verdict(before, after))
    return one.verdict, command._change(one)


def test_a_change_is_set_against_what_the_verdict_goes_by():
    assert change_in_words(1.01e-3) == ("confirmed", "+1.0%, within 5%")
    assert change_in_words(1.2e-3) == ("slower", "+20.0%, beyond 5%")
    assert change_in_words(1.2e-3, 0.1) == ("slower", "+20.0%, beyond noise of 10.0%")
    assert change_in_words(1.2e-3, 0.3) == ("confirmed", "+20.0%, within noise of 30.0%")
    overlap = ("confirmed", "+20.0%, intervals overlap")
    assert change_in_words(1.2e-3, 0.1, [1.05e-3, 1.3e-3]) == overlap
    assert change_in_words(0.5e-3, 0.1) == ("faster", "-50.0%, beyond noise of 10.0%")


def test_a_failure_without_a_word_is_named_by_its_kind():
    inp, before = pair(SCALE, 0, SLOW)
    silent = MeasureResult((), MeasureErrorNo.RUN_TIMEOUT, 0.1, 1.0, " \n")
    assert "RUN_TIMEOUT" in command._line(Recheck(inp, before, silent, "failed"))
    spoken = silent._replace(error_msg="it hung\nfor long")
    assert "it hung   measure_test" in command._line(Recheck(inp, before, spoken, "failed"))


def test_one_log_is_verified_at_a_time(tmp_path):
    two = verify(tmp_path / "a.log", tmp_path / "b.log")
    assert two.exit_code == 2
    assert "expected one LOG, got 2" in two.output
    none = verify(tmp_path / "kernels.py")
    assert none.exit_code == 2
    assert "expected one LOG, got 0" in none.output


def test_a_missing_module_is_named(verified):
    result = verified(pair(SCALE, 0, SLOW), options=["--module", "no_such_templates"])
    assert result.exit_code == 1
    assert "--module no_such_templates: No module named" in result.output


def test_an_empty_log_holds_nothing(verified):
    result = verified()
    assert result.exit_code == 1
    assert "has no record of a trial that worked" in result.output
