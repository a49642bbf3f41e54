"""The final race: who takes part, who wins, and what a log then replays."""

import io
import json
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import autotune
from autotune.cli.main import main
from autotune.measure import (
    BuildResult,
    LocalBuilder,
    LocalRunner,
    MeasureInput,
    MeasureResult,
    measure_option,
)
from autotune.measure.run.timing import CLOSE
from autotune.record import LogReader, apply_history_best, encode, load_from_file
from autotune.target import Target
from autotune.tuner import GridSearchTuner, callback
from autotune.tuner.loop.finalists import finalists, measured_default, with_default

SOURCE = """
void work(const float *x, float *y) {
  for (int r = 0; r < REPEATS; r++)
    for (int i = 0; i < 1024; i++) y[i] = x[i] * 2 + (REPEATS > 1 ? 0 * r : 0);
}
"""


@autotune.template("tests/finalists")
def work(repeats=(1, 1, 200)):
    cfg = autotune.get_config()
    cfg.define_knob("repeats", list(repeats))
    return autotune.SourceKernel(
        "work",
        SOURCE,
        defines={"REPEATS": cfg["repeats"].val},
        args=[autotune.arg("x", (1024,)), autotune.arg("y", (1024,), role="out")],
        reference=lambda x: 2 * x,
    )


@pytest.fixture
def task():
    return autotune.create("tests/finalists", (), "llvm")


def pair(task, index, seconds, **extra):
    inp = MeasureInput(task.target, task, task.config_space.get(index))
    return inp, MeasureResult((seconds,), 0, 1.0, 1.0, "", extra)


def test_only_trials_close_to_the_fastest_run_again(task):
    near, far = pair(task, 1, CLOSE * 0.99), pair(task, 2, CLOSE * 1.01)
    assert finalists([far, near, pair(task, 0, 1.0)], 5) == [pair(task, 0, 1.0), near]


def test_a_kernel_whose_answer_nobody_checked_takes_no_part(task):
    unchecked = pair(task, 0, 1.0, verified=False)
    checked = pair(task, 1, 1.05, verified=True)
    assert finalists([unchecked, checked], 5) == [checked]
    assert finalists([unchecked], 5) == [unchecked]


def test_failed_trials_take_no_part(task):
    inp, _ = pair(task, 0, 1.0)
    assert finalists([(inp, MeasureResult((), 4, 1.0, 1.0, "crashed"))], 5) == []


def replayed(log):
    return apply_history_best(log).query(Target("llvm"), ("tests/finalists",)).index


def test_winning_a_race_counts_more_than_a_lucky_time(task, tmp_path):
    log = tmp_path / "log.json"
    winner = pair(task, 1, 1.02, race={"tied": [1], "candidates": [{"index": 0}, {"index": 1}]})
    rows = [encode(*pair(task, 0, 1.0)), encode(*pair(task, 1, 1.01)), "# race " + encode(*winner)]
    log.write_text("\n".join(rows) + "\n")
    assert replayed(log) == 1
    # One that was measured later and is faster still was not in the race.
    log.write_text("\n".join([*rows, encode(*pair(task, 2, 0.9))]) + "\n")
    assert replayed(log) == 2


def test_a_faster_trial_that_nobody_checked_is_passed_over(task, tmp_path):
    log = tmp_path / "log.json"
    race = {"tied": [1], "candidates": [{"index": 1}], "passed_over": [0]}
    winner = pair(task, 1, 1.02, race=race)
    log.write_text(f"{encode(*pair(task, 0, 1.0))}\n# race {encode(*winner)}\n")
    assert replayed(log) == 1


def test_the_winner_of_a_race_is_a_comment_to_other_readers(task, tmp_path):
    log = tmp_path / "log.json"
    log.write_text(f"{encode(*pair(task, 0, 1.0))}\n# race {encode(*pair(task, 1, 1.0))}\n")
    assert len(list(load_from_file(log))) == 1
    assert len(list(load_from_file(log, races=True))) == 2
    reader = LogReader(log.read_text().splitlines(keepends=True), "log")
    assert len(list(reader)) == 1
    assert reader.report() == ""


def test_tuning_ends_with_a_race_whose_proof_is_in_the_log(task, tmp_path):
    log = tmp_path / "log.json"
    option = measure_option(LocalBuilder(), LocalRunner(number=50, verify="all"))
    tuner = GridSearchTuner(task)
    tuner.tune(3, option, callbacks=[callback.log_to_file(str(log))])
    *rows, note = log.read_text().splitlines()
    assert [row.startswith("{") for row in rows] == [True, True, True]
    winner = json.loads(note.removeprefix("# race "))
    proof = winner["race"]
    # What the record says of its time is of the race as well.
    assert [winner["samples"]] == proof["candidates"][0]["samples"]
    costs = winner["result"][0]
    assert [np.median(costs)] == pytest.approx(proof["candidates"][0]["medians"])
    # Both are the same machine code: they tie, and the lower index wins.
    assert [one["index"] for one in proof["candidates"]] in ([0, 1], [1, 0])
    assert tuner.best_config.index == replayed(log) == 0


def test_a_default_that_is_far_behind_races_where_that_costs_little(task):
    best, slow = pair(task, 0, 6e-6), pair(task, 2, 6e-3, cut_short=True)
    assert with_default([best], slow) == [best, slow]
    assert with_default([best], pair(task, 2, 0.6)) == [best]


def test_a_default_too_slow_to_race_is_in_the_proof_with_its_own_trial(tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.tuner.loop.finalists._CHEAP_S", 0.0)
    log = tmp_path / "x.log"
    slow_first = autotune.create("tests/finalists", ((200, 1, 1),), "llvm")
    option = measure_option(LocalBuilder(), LocalRunner(number=1, repeat=5, min_repeat_ms=1))
    logged = [callback.log_to_file(log)]
    told = GridSearchTuner(slow_first).tune(3, option, callbacks=logged)
    slow = slow_first.config_space.get(0).key  # records stand as trials end: not always first
    ((default, trial),) = (row for row in load_from_file(log) if row[0].key == slow)
    *_, (_, winner) = load_from_file(log, races=True)
    race = winner.evidence.race
    assert race.default == default.key
    assert default.key not in race.keys
    # It was tried twice, and the faster counts.
    assert told.default_seconds == race.default_seconds == race.default_trial <= trial.seconds
    (shown,) = json.loads(CliRunner().invoke(main, ["log", "show", "--json", str(log)]).stdout)
    assert shown["default_seconds"] == pytest.approx(race.default_seconds)


@pytest.mark.parametrize("again", [1.2, 50.0, 70.0, None])
def test_a_default_far_behind_is_tried_again_and_the_faster_trial_counts(task, again):
    inputs = []

    def run(given, built):
        inputs.extend(given)
        return [MeasureResult((again or 1.0,), 0 if again else 4, 1.0, 1.0, "" if again else "no")]

    session = SimpleNamespace(
        builder=SimpleNamespace(build=lambda _: [BuildResult("x", None)], discard=lambda _: None),
        runner=SimpleNamespace(run=run),
    )
    default = task.default().key
    for first, tried in ((3.9, 0), (60.0, 1)):
        trials = [pair(task, 0, first), pair(task, 1, 1.0)]
        assert trials[0][0].key == default
        inputs.clear()
        inp, result = measured_default(task, trials, session)
        assert [one.key for one in inputs] == [default] * tried
        assert (inp.key, result.seconds) == (default, min(first, (again if tried else 0) or 60.0))


def test_a_run_killed_before_its_race_is_raced_when_it_is_resumed_and_only_once(task, tmp_path):
    log = tmp_path / "log.json"
    option = measure_option(LocalBuilder(), LocalRunner(number=50, verify="all"))
    keep = callback.log_to_file(str(log))
    GridSearchTuner(task).tune(3, option, callbacks=[keep], finalists=0)
    races = []
    for _ in range(2):
        tuner = GridSearchTuner(task)
        tuner.tune(3, option, callbacks=[keep], resume=log)
        races.append(log.read_text().count("# race "))
        assert tuner.best_config.index == replayed(log) == 0
    assert races == [1, 1]


def test_no_race_is_run_when_none_is_wanted(task, tmp_path):
    log = tmp_path / "log.json"
    GridSearchTuner(task).tune(
        3,
        measure_option(LocalBuilder(), LocalRunner(verify="all")),
        callbacks=[callback.log_to_file(str(log))],
        finalists=0,
    )
    assert "# race" not in log.read_text()


def test_a_resumed_run_counts_what_was_measured_before(task, tmp_path):
    log, screen = tmp_path / "log.json", io.StringIO()
    option = measure_option(LocalBuilder(), LocalRunner())
    GridSearchTuner(task).tune(1, option, callbacks=[callback.log_to_file(str(log))])
    bar = callback.progress_bar(3, stream=screen)
    GridSearchTuner(task).tune(3, option, callbacks=[bar], resume=str(log))
    first, *_ = screen.getvalue().splitlines()
    assert first.startswith("1/3 trials, best ")
    assert "\n3/3 trials, best " in screen.getvalue()


def test_the_scope_says_that_a_tuner_is_at_work_and_stops_saying_it(task):
    seen = []
    option = measure_option(LocalBuilder(), LocalRunner())
    GridSearchTuner(task).tune(
        1, option, callbacks=[lambda *_: seen.append(autotune.GLOBAL_SCOPE.in_tuning)]
    )
    assert seen == [True]
    assert not autotune.GLOBAL_SCOPE.in_tuning
