"""The default configuration, and how the final race treats it."""

import logging

import pytest

import autotune
from autotune.errors import MeasureError
from autotune.measure import LocalBuilder, LocalRunner, measure_option
from autotune.measure.final.choose import Finalist, choose
from autotune.measure.final.race import RaceResult
from autotune.record import load_from_file
from autotune.runtime import summarize
from autotune.task import create
from autotune.tuner import GridSearchTuner, callback
from autotune.tuner.loop.result import default_of

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


def test_a_default_that_won_without_a_race_is_known_from_the_log(tmp_path):
    task = create("tests/result/untuned", ([900, 1],), "llvm")
    log = tmp_path / "x.log"
    for resumed in (0, 2):  # and nothing is added when the run is resumed
        result = GridSearchTuner(task).tune(
            2, local(), callbacks=[callback.log_to_file(log)], resume=log
        )
        assert result.resumed == resumed
    assert result.default_seconds == result.seconds
    *trials, won = load_from_file(log, races=True)
    assert len(trials) == 2
    assert default_of(won[1]) == won[1].seconds == min(one[1].seconds for one in trials)
