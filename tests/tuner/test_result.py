"""What a run says of itself at its end, however it ends."""

import logging
import math

import pytest

import autotune
from autotune.errors import MeasureError, TunerError
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.measure.final.choose import Finalist, choose
from autotune.measure.final.race import RaceResult
from autotune.record import open_database
from autotune.runtime import summarize
from autotune.task import create, get_config, template
from autotune.tuner import GridSearchTuner, RandomTuner, TuneResult, callback
from tests.tuner.doubles import Counting, Empty, loop_task, option


@pytest.fixture
def task():
    return loop_task()


def test_tune_returns_what_it_found(task, tmp_path):
    log = tmp_path / "log.json"
    tuner = GridSearchTuner(task)
    result = tuner.tune(
        30, option(bad=range(3, 30, 3)), callbacks=[callback.log_to_file(log)], fail_fast=None
    )
    assert isinstance(result, TuneResult)
    assert tuner.result is result
    assert result.best_config is tuner.best_config
    assert result.seconds == pytest.approx(1e-3)
    assert result.flops == pytest.approx(tuner.best_flops)
    assert (result.trials, result.resumed) == (30, 0)
    assert result.failures == {"COMPILE_HOST": 9}
    assert result.stop_reason == "all 30 trials were made"
    assert result.log == log


def test_a_notebook_shows_the_summary_of_a_result(task):
    shown = []

    class Printer:
        text = staticmethod(shown.append)

    result = GridSearchTuner(task).tune(2, option())
    result._repr_pretty_(Printer(), cycle=False)
    assert shown == [str(result)]


@pytest.mark.parametrize("place", ["logs/", "sqlite:///trials.db", "stream", "database"])
def test_the_summary_says_where_trials_are_kept_wherever_that_is(
    task, tmp_path, monkeypatch, place
):
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "stream").open("a") as stream:
        kept = {
            "stream": callback.log_to_file(stream),
            "database": callback.log_to_database(open_database("x.log")),
        }.get(place) or callback.log_to_file(place)
        result = GridSearchTuner(task).tune(1, option(), callbacks=[kept])
    name = {"stream": str(tmp_path / "stream"), "database": "x.log"}.get(place, place)
    assert str(result.log) == name
    assert f"  log      {name}" in str(result).splitlines()


def test_the_result_is_frozen(task):
    result = GridSearchTuner(task).tune(1, option())
    with pytest.raises(AttributeError):
        result.seconds = 0.0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"n_trial": 1000}, "the space is exhausted"),
        ({"n_trial": 60, "early_stopping": 10}, "early stopping: the best is trial 1"),
        ({"n_trial": 60, "timeout_s": 0.0}, "the time of 0 s is used up"),
    ],
)
def test_why_it_stopped_is_said(task, arguments, reason, caplog):
    caplog.set_level(logging.INFO, "autotvm")
    result = GridSearchTuner(task).tune(measure_option=option(), **arguments)
    assert result.stop_reason == reason
    assert f"stopped  {reason}" in caplog.text


def test_without_callbacks_the_summary_is_logged_at_info(task, caplog):
    caplog.set_level(logging.INFO, "autotvm")
    result = GridSearchTuner(task).tune(7, option(bad=[2, 5]))
    (said,) = [r.getMessage() for r in caplog.records if r.levelno == logging.INFO]
    assert str(result) in said
    for words in (
        "tests.tuner.loop (20,) on c",
        "7 in ",
        "2 failed (2 COMPILE_HOST)",
        "best     1000.0 us, 1.00 GFLOPS",
        "x=0, y=1 (index 0)",
        "none; keep trials with callback.log_to_file",
    ):
        assert words in said


def test_a_run_in_which_nothing_worked_says_so(task):
    result = GridSearchTuner(task).tune(5, option(bad=range(60)))
    assert (result.best_config, result.seconds, result.flops) == (None, math.inf, None)
    assert "none: no trial succeeded" in str(result)
    assert result.failures == {"COMPILE_HOST": 5}


def test_after_ctrl_c_the_summary_is_right(task, caplog, tmp_path):
    caplog.set_level(logging.INFO, "autotvm")
    log = tmp_path / "log.json"
    tuner = GridSearchTuner(task)
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(60, option(stop_at=20), callbacks=[callback.log_to_file(log)])
    result = tuner.result
    assert result.stop_reason == "interrupted; continue with resume="
    assert result.trials == len(log.read_text().splitlines())
    assert 0 < result.trials < 60
    assert result.seconds == pytest.approx(1e-3)
    assert "stopped  interrupted; continue with resume=" in caplog.text


@pytest.mark.parametrize("logs", [True, False])
def test_after_ctrl_c_only_a_log_is_what_can_be_continued(task, caplog, tmp_path, logs):
    caplog.set_level(logging.INFO, "autotvm")
    callbacks = [lambda *_: None, *[callback.log_to_file(tmp_path / "log.json")] * logs]
    tuner = GridSearchTuner(task)
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(60, option(stop_at=20), callbacks=callbacks)
    assert tuner.result.stop_reason.startswith("interrupted")
    assert ("resume=" in caplog.text) == ("log is complete" in caplog.text) == logs


def test_when_a_callback_raises_the_summary_says_what(task):
    def fail(*_):
        raise OSError("no room\nand more")

    tuner = GridSearchTuner(task)
    with pytest.raises(OSError, match="no room"):
        tuner.tune(9, option(), callbacks=[fail])
    assert tuner.result.stop_reason == "OSError: no room"
    assert tuner.result.trials >= 1


def test_a_callback_that_fails_to_begin_leaves_a_result_and_the_others_hear_of_the_end(task):
    class Watch:
        heard = None

        def __call__(self, *_):
            pass

        def tuned(self, tuner, result):
            self.heard = result

    class Broken(Watch):
        def tuning(self, tuner):
            raise OSError("no terminal")

    tuner, watch = GridSearchTuner(task), Watch()
    with pytest.raises(OSError, match="no terminal"):
        tuner.tune(9, option(), callbacks=[watch, Broken()])
    assert watch.heard is tuner.result
    assert tuner.result.stop_reason == "OSError: no terminal"


def test_a_resumed_run_counts_what_was_there(task, tmp_path):
    log = tmp_path / "log.json"
    GridSearchTuner(task).tune(5, option(), callbacks=[callback.log_to_file(log)])
    result = GridSearchTuner(task).tune(8, option(), resume=log)
    assert (result.trials, result.resumed) == (8, 5)
    assert "5 of them taken over from an earlier run" in str(result)


def test_a_result_is_told_to_callbacks_that_ask_for_it(task):
    class Listener:
        def __init__(self):
            self.told = []

        def __call__(self, *_):
            pass

        def tuning(self, tuner):
            self.told.append("tuning")

        def tuned(self, tuner, result):
            self.told.append(result)

    class Unrelated:
        tuned, path = "attributes of the user's own", "and another"

        def __call__(self, *_):
            pass

    listener = Listener()
    result = GridSearchTuner(task).tune(3, option(), callbacks=[Unrelated(), listener])
    assert listener.told[0] == "tuning"
    assert listener.told[1].trials == result.trials == 3
    assert result.log is None


@template("tests/result/no_flop")
def no_flop(n):
    get_config().define_knob("x", list(range(n)))
    get_config().define_knob("y", [1])


def test_without_operations_no_rate_is_made_up():
    result = GridSearchTuner(create("tests/result/no_flop", (4,), "c")).tune(4, option())
    assert result.flops is None
    assert "FLOPS" not in str(result)
    assert "1000.0 us" in str(result)


def test_a_refused_argument_leaves_no_result(task):
    tuner = RandomTuner(task)
    with pytest.raises(TunerError):
        tuner.tune(0, {"builder": Empty(), "runner": Counting()})
    assert tuner.result is None


# ---- the default configuration

SOURCE = """
void work(const float *x, float *y) {
  for (int r = 0; r < REPEATS; r++)
    for (int i = 0; i < 1024; i++) y[i] = x[i] * 2 + (REPEATS > 1 ? 0 * r : 0);
}
"""


@autotune.template("tests/result/untuned")
def untuned(repeats):
    cfg = autotune.get_config()
    if cfg.is_fallback:
        cfg["repeats"] = autotune.task.OtherOptionEntity(repeats[-1])
    cfg.define_knob("repeats", repeats)
    return autotune.SourceKernel(
        "work",
        SOURCE,
        defines={"REPEATS": cfg["repeats"].val},
        args=[autotune.arg("x", (1024,)), autotune.arg("y", (1024,), role="out")],
        reference=lambda x: 2 * x,
    )


def local():
    return measure_option(LocalBuilder(), LocalRunner(number=50, verify="all"))


def test_a_default_that_no_trial_tried_races_and_wins_where_it_is_fastest():
    task = create("tests/result/untuned", ([200, 150, 1],), "llvm")
    result = GridSearchTuner(task).tune(2, local())
    assert result.best_config["repeats"].val == 1
    assert result.trials == 2
    assert result.default_seconds == pytest.approx(result.seconds)
    assert result.speedup == pytest.approx(1)


def test_a_default_that_is_far_slower_races_where_a_run_of_it_is_short(tmp_path):
    task = create("tests/result/untuned", ([1, 400],), "llvm")
    log = tmp_path / "log.json"
    result = GridSearchTuner(task).tune(1, local(), callbacks=[callback.log_to_file(log)])
    assert result.best_config["repeats"].val == 1
    assert result.speedup > 4
    row, race = log.read_text().splitlines()
    assert race.startswith("# race ")
    assert not row.startswith("#")
    assert "x as fast" in str(result)


def test_a_default_outside_of_the_space_is_none():
    @autotune.template("tests/result/outside")
    def outside():
        cfg = autotune.get_config()
        if cfg.is_fallback:
            cfg["x"] = autotune.task.OtherOptionEntity(7)
        cfg.define_knob("x", [1, 2])

    @autotune.template("tests/result/refuses")
    def refuses():
        cfg = autotune.get_config()
        cfg.define_knob("x", [1, 2])
        if cfg.is_fallback:
            raise RuntimeError("tune me first")

    for name in ("outside", "refuses"):
        assert create(f"tests/result/{name}", (), "c").default() is None


def test_the_default_of_a_filtered_space_is_its_first_valid_point():
    @autotune.template("tests/result/filtered")
    def filtered():
        cfg = autotune.get_config()
        cfg.define_knob("x", [1, 2, 3])
        cfg.multi_filter(lambda c: c["x"].val > 1)

    assert create("tests/result/filtered", (), "c").default()["x"].val == 2


def test_the_default_of_a_split_is_found_whatever_its_first_size():
    @autotune.template("tests/result/split")
    def split():
        cfg = autotune.get_config()
        cfg.define_split("t", 64, num_outputs=3)
        cfg.define_split("v", 64, policy="candidate", num_outputs=2, candidate=[[8, 8], [4, 16]])
        if cfg.is_fallback:
            cfg.fallback_split("t", [-1, 4, 8])
            cfg.fallback_split("v", [-1, 16])

    config = create("tests/result/split", (), "c").default()
    assert config["t"].size[1:] == [4, 8]
    assert config["v"].size == [4, 16]


# ---- a busy host


class Disturbed(Counting):
    """A runner that saw others at work."""

    host_note = "the host is busy: for a test"


def test_a_busy_host_is_spoken_of_once(task, caplog):
    busy = {"builder": Empty(), "runner": Disturbed()}
    result = GridSearchTuner(task).tune(3, busy)
    assert result.notes == ("the host is busy: for a test",)
    assert caplog.text.count("the host is busy") == 1
    caplog.clear()
    caplog.set_level(logging.INFO, "autotvm")
    GridSearchTuner(task).tune(3, busy)
    assert caplog.text.count("the host is busy") == 1


@pytest.mark.parametrize("where", ["measured_default", "race_finalists"])
def test_ctrl_c_in_the_final_race_leaves_the_best_trial(where, monkeypatch, caplog):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"autotune.tuner.loop.final_race.{where}", press)
    caplog.set_level(logging.INFO, "autotvm")
    tuner = GridSearchTuner(create("tests/result/untuned", ([1, 1],), "llvm"))
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(2, local())
    assert tuner.result.trials == 2
    assert tuner.result.best_config is tuner.best_config is not None
    assert tuner.result.seconds == tuner.best_measure_pair[1].seconds
    assert "stopped  interrupted" in caplog.text


def test_a_race_that_cannot_be_run_leaves_the_fastest_trial(monkeypatch, caplog):
    def fail(*_):
        raise MeasureError("no device is left")

    monkeypatch.setattr("autotune.tuner.loop.final_race.race_finalists", fail)
    task = create("tests/result/untuned", ([1, 1],), "llvm")
    result = GridSearchTuner(task).tune(2, local())
    assert result.best_config is not None
    assert result.stop_reason == "all 2 trials were made"
    assert "could not be raced, the fastest stays: no device is left" in caplog.text


def test_a_default_that_does_not_run_is_none_and_harms_nobody():
    @autotune.template("tests/result/broken_default")
    def broken(n):
        cfg = autotune.get_config()
        cfg.define_knob("body", ["this is no C", "for (int i = 0; i < N; i++) y[i] = 2 * x[i];"])
        return autotune.SourceKernel(
            "work",
            "void work(const float *x, float *y) {" + cfg["body"].val + "}",
            defines={"N": n},
            args=[autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")],
            reference=lambda x: 2 * x,
        )

    tuner = GridSearchTuner(create("tests/result/broken_default", (64,), "llvm"))
    result = tuner.tune(2, local())
    assert result.best_config.index == 1
    assert result.default_seconds is None
    assert result.speedup is None
    assert "default  not measured" in str(result)


def test_a_default_that_ties_wins_whatever_the_rule_prefers(monkeypatch):
    seen = []

    def tie(inputs, option, *, rounds, least_s, incumbent):
        seen.append(incumbent)
        timings = [(summarize([1e-3, 1.001e-3, 1.002e-3], 1),) for _ in inputs]
        pairs = zip(inputs, timings, strict=True)
        rows = [Finalist(i.key, t.median, *t.ci95) for i, (t,) in pairs]
        winner = choose(rows, incumbent)
        chosen = next(i for i in inputs if i.key == winner.key)
        return RaceResult(chosen, tuple(rows), tuple(r.key for r in rows), tuple(timings))

    monkeypatch.setattr("autotune.tuner.loop.finalists.race", tie)
    task = create("tests/result/untuned", ([1, 1, 2],), "llvm")
    result = GridSearchTuner(task).tune(3, local())
    assert seen == [task.default().key] == ["2"]
    assert result.best_config.index == 2  # a lower index would win among others
    assert result.speedup == pytest.approx(1)
