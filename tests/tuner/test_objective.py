"""Tuning for something else than time: the strategy learns it, the best is the best by it."""

import io
import json

import pytest

from autotune.errors import MeasureError, TunerError
from autotune.measure import MeasureResult
from autotune.measure.objective import EDP
from autotune.record import best_of, load_from_file
from autotune.tuner import (
    AutoTuner,
    GATuner,
    GridSearchTuner,
    Objective,
    RandomTuner,
    Recording,
    SimulatedAnnealingTuner,
    XGBTuner,
    callback,
)
from tests.tuner.doubles import Counting, Empty, loop_task


class Powered(Counting):
    """A configuration takes (1 + x) * y ms and (top - x) * y joules: the slow take less."""

    energy = True

    def __init__(self, top=40):
        super().__init__()
        self.top = top

    def run(self, measure_inputs, build_results):
        results = super().run(measure_inputs, build_results)
        return [
            one._replace(
                extra={"energy": {"joules": joules(inp.config, self.top), "watts": 100.0}}
            )
            for inp, one in zip(measure_inputs, results, strict=True)
        ]


def joules(config, top=40):
    return float(top - config["x"].val) * config["y"].val


def option(runner=None):
    return {"builder": Empty(), "runner": runner or Powered()}


@pytest.mark.parametrize(
    ("objective", "best"),
    [("time", (0, 1)), ("energy", (19, 1)), ("edp", (0, 1))],
)
def test_the_best_is_by_the_objective(objective, best):
    tuner = GridSearchTuner(loop_task())
    result = tuner.tune(60, option(), objective=objective)
    assert (result.best_config["x"].val, result.best_config["y"].val) == best
    assert tuner.best_config is result.best_config
    assert result.joules == joules(result.best_config)
    assert result.watts == 100.0
    assert result.objective == objective


@pytest.mark.parametrize("kind", [AutoTuner, GATuner, SimulatedAnnealingTuner, XGBTuner])
def test_every_strategy_finds_what_takes_little(kind):
    """Of 600 configurations 120 are tried; 17 take as little as this."""
    tuner = kind(loop_task(200), seed=1)
    assert tuner.tune(120, option(Powered(top=240)), objective="energy").joules <= 57


def test_strategies_learn_costs_and_callbacks_see_times():
    told, seen = [], []

    class Listens(GridSearchTuner):
        def update(self, inputs, results):
            told.extend(result.seconds for result in results)
            super().update(inputs, results)

    def watch(tuner, inputs, results):
        seen.extend(results)

    Listens(loop_task()).tune(5, option(), callbacks=[watch], objective="energy")
    assert told == pytest.approx([one.joules * 1e6 for one in seen])
    assert [one.seconds for one in seen] == pytest.approx([1e-3 * (1 + x) for x in range(5)])


def test_the_winner_is_no_worse_than_the_default(tmp_path):
    """The default is the best of all by their product, and is not among the trials."""

    class Races(Powered):
        can_race = True

    log = tmp_path / "x.log"
    tuner = RandomTuner(loop_task(), seed=1)
    result = tuner.tune(3, option(Races()), callbacks=[callback.log_to_file(log)], objective="edp")
    assert result.trials == 3
    assert (result.best_config["x"].val, result.best_config["y"].val) == (0, 1)
    assert result.default_joules == result.joules == 40
    best = best_of(load_from_file(log, races=True), EDP)
    assert best[0].key == result.best_config.key


def test_an_objective_may_be_any_function_of_a_record():
    wanted = Objective("the third", lambda inp, result: 1 + abs(inp.config["x"].val - 3))
    result = GridSearchTuner(loop_task()).tune(60, option(Counting()), objective=wanted)
    assert result.best_config["x"].val == 3
    assert result.joules is None
    assert "by the third: 4000.0 us" in str(result)


def test_a_runner_that_measures_no_energy_is_refused_before_anything_is_built():
    builder = Empty()
    runner = Counting()
    with pytest.raises(MeasureError, match=r"objective 'energy': .* LocalRunner\(energy=True\)"):
        RandomTuner(loop_task()).tune(
            5, {"builder": builder, "runner": runner}, objective="energy"
        )
    assert runner.seen == []


def test_there_are_three_objectives_by_name():
    with pytest.raises(TunerError, match="tune: objective must be one of 'time', 'energy', 'edp'"):
        RandomTuner(loop_task()).tune(5, option(), objective="watts")


def test_the_summary_says_time_and_energy():
    text = str(GridSearchTuner(loop_task()).tune(60, option(), objective="energy"))
    assert "  best     by energy: 20000.0 us" in text
    assert "  energy   21.00 J a run, at 100 W" in text


def test_a_run_that_is_resumed_keeps_the_best_by_its_objective(tmp_path):
    log = tmp_path / "x.log"
    GridSearchTuner(loop_task()).tune(
        20, option(), callbacks=[callback.log_to_file(log)], objective="energy"
    )
    tuner = GridSearchTuner(loop_task())
    result = tuner.tune(25, option(), resume=log, objective="energy")
    assert (result.best_config["x"].val, result.resumed) == (19, 20)
    assert {json.loads(line)["energy"]["watts"] for line in log.read_text().splitlines()} == {100}
    assert all(one.joules for _, one in load_from_file(log))


def test_a_log_with_energy_is_replayed_for_any_objective(tmp_path):
    log = tmp_path / "x.log"
    GridSearchTuner(loop_task()).tune(60, option(), callbacks=[callback.log_to_file(log)])
    recording = Recording.from_records(load_from_file(log))
    for objective, x in (("time", 0), ("energy", 19)):
        tuner = RandomTuner(recording.task(), seed=0)
        result = tuner.tune(60, recording.option(), objective=objective)
        assert (result.best_config["x"].val, result.best_config["y"].val) == (x, 1)


def test_a_line_of_progress_has_the_energy_of_the_best():
    text = io.StringIO()
    GridSearchTuner(loop_task()).tune(
        20, option(), callbacks=[callback.progress_bar(20, stream=text)], objective="energy"
    )
    assert "20000.0 us, 21.00 J" in text.getvalue()


def test_early_stopping_counts_from_the_best_by_the_objective():
    result = GridSearchTuner(loop_task()).tune(
        60, option(), objective="energy", early_stopping=5, finalists=0
    )
    assert result.trials >= 20 + 5


def test_a_record_without_energy_is_no_winner():
    class Sometimes(Powered):
        def run(self, measure_inputs, build_results):
            results = super().run(measure_inputs, build_results)
            return [
                one if inp.config["x"].val else MeasureResult(one.costs, 0, 0.1, 1.0)
                for inp, one in zip(measure_inputs, results, strict=True)
            ]

    result = GridSearchTuner(loop_task()).tune(
        60, option(Sometimes()), objective=Objective("e", lambda i, r: 1 / r.joules, energy=True)
    )
    assert result.joules == 39 * 4  # the most of those that are known
