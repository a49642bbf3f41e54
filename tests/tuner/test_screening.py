"""Proposals that cannot run are no trials, whatever strategy makes them."""

import logging

import numpy as np
import pytest

import autotune.measure.build.builder as builder
from autotune.errors import TunerError
from autotune.kernel import SourceKernel, arg
from autotune.measure import (
    BuildResult,
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureResult,
    measure_option,
)
from autotune.record import load_from_file
from autotune.task import create, get_config, template
from autotune.tuner import (
    AskTellTuner,
    AutoTuner,
    DropletTuner,
    GATuner,
    GridSearchTuner,
    RandomTuner,
    SimulatedAnnealingTuner,
    Tuner,
    XGBTuner,
    callback,
)
from tests.trials import inputs_of
from tests.tuner.doubles import Counting, Empty

SOURCE = "void scale(const float *a, float *b) { for (int i = 0; i < 64; i++) b[i] = a[i] * F; }\n"


@template("tests.tuner.screening")
def partly(n, allowed):
    """Of ``n`` x 4 points, those run whose x is below ``allowed``."""
    config = get_config()
    config.define_knob("x", list(range(n)))
    config.define_knob("y", [1, 2, 4, 8])
    if config["x"].val >= allowed:
        config.raise_error(f"x = {config['x'].val} is too large")
    args = [arg("a", (64,)), arg("b", (64,), role="out")]
    return SourceKernel("scale", SOURCE, defines={"F": 2}, args=args, reference=lambda a: 2 * a)


class Sequential(Tuner):
    """A strategy of a user, by the three methods alone: every point in order of index."""

    def __init__(self, task):
        super().__init__(task)
        self.position, self.told = 0, []

    def has_next(self):
        return self.position < len(self.space)

    def next_batch(self, batch_size):
        first, self.position = self.position, min(self.position + batch_size, len(self.space))
        return [self.space.get(i) for i in range(first, self.position)]

    def update(self, inputs, results):
        self.told += [(i.config.index, r.error_no) for i, r in zip(inputs, results, strict=True)]


class Stubborn(Sequential):
    """Proposes the one point again and again."""

    def has_next(self):
        return True

    def next_batch(self, batch_size):
        return [self.space.get(39)] * batch_size


class Blind:
    """An outside optimiser that draws at random, and notes what it is told."""

    def __init__(self):
        self.rng, self.told = np.random.default_rng(0), []

    def ask(self, knobs):
        return None, {name: int(self.rng.integers(n)) for name, n in knobs.items()}

    def tell(self, token, seconds):
        self.told.append(seconds)


class Compiling(LocalBuilder):
    """Builds nothing; templates run as they do where kernels are compiled."""

    def __init__(self):
        super().__init__(n_parallel=2)
        self.submitted = []

    def submit(self, measure_input):
        self.submitted.append(measure_input.config.index)
        assert self._realised is None or self._realised[0] is measure_input
        return super(LocalBuilder, self).submit(measure_input)

    def build(self, measure_inputs):
        return [BuildResult("built", None) for _ in measure_inputs]

    def close(self):
        super(LocalBuilder, self).close()


STRATEGIES = {
    "grid": GridSearchTuner,
    "random": lambda task: RandomTuner(task, seed=0),
    "ga": lambda task: GATuner(task, pop_size=8, seed=0),
    "annealing": lambda task: SimulatedAnnealingTuner(task, seed=0),
    "droplet": lambda task: DropletTuner(task, seed=0),
    "xgb": lambda task: XGBTuner(task, seed=0),
    "auto": lambda task: AutoTuner(task, seed=0),
    "ask and tell": lambda task: AskTellTuner(task, Blind(), seed=0),
    "a user's": Sequential,
}


def task_of(n=30, allowed=10):
    return create("tests.tuner.screening", (n, allowed), "c")


def option():
    return measure_option(Compiling(), Counting())


@pytest.mark.many_cases
@pytest.mark.parametrize("reproducible", [False, True])
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_trial_of_every_strategy_can_run(name, reproducible, tmp_path):
    log, seen = tmp_path / "log", []
    tuner = STRATEGIES[name](task_of())
    watch = lambda tuner, inputs, results: seen.extend(results)
    callbacks = [watch, callback.log_to_file(str(log))]
    result = tuner.tune(40, option(), callbacks=callbacks, reproducible=reproducible)
    # All 40 that can run are found, whatever else is proposed before them.
    assert len(seen) == result.trials == 40
    assert all(r.ok for r in seen)
    assert {i.config["x"].val for i, _ in load_from_file(str(log))} == set(range(10))
    assert 0 <= tuner.filtered == result.filtered <= 80


@pytest.mark.parametrize("name", [n for n in STRATEGIES if n not in ("grid", "a user's")])
def test_what_was_filtered_is_counted_and_shown(name):
    result = STRATEGIES[name](task_of()).tune(30, option())
    assert result.filtered > 0
    shown = str(result)
    assert f"{result.filtered} proposals that cannot run, most for INSTANTIATION_ERROR" in shown
    assert "is too large" in shown


def test_the_strategy_is_told_what_cannot_run():
    tuner = Sequential(task_of(n=4, allowed=2))
    result = tuner.tune(16, option())
    assert (result.trials, result.filtered) == (8, 8)
    refused = {index for index, error in tuner.told if error}
    assert refused == {i for i in range(16) if tuner.space.get(i)["x"].val >= 2}
    assert sorted(index for index, _ in tuner.told) == list(range(16))
    assert {error for _, error in tuner.told} == {0, MeasureErrorNo.INSTANTIATION_ERROR}


def test_an_outside_optimiser_is_told_none_for_what_cannot_run():
    optimiser = Blind()
    AskTellTuner(task_of(), optimiser, seed=0).tune(20, option())
    assert optimiser.told.count(None) >= 10
    assert sum(seconds is not None for seconds in optimiser.told) <= 20


def test_invalid_points_are_trials_again_when_asked_for():
    seen = []
    watch = lambda tuner, inputs, results: seen.extend(results)
    tuner = Sequential(task_of(n=4, allowed=2))
    result = tuner.tune(16, measure_option(LocalBuilder(n_parallel=1), Counting()),
                        callbacks=[watch], count_invalid=True)  # fmt: skip
    assert (result.trials, result.filtered, tuner.filtered) == (16, 0, 0)
    assert sum(r.error_no == MeasureErrorNo.INSTANTIATION_ERROR for r in seen) == 8


def test_a_space_in_which_nothing_runs_ends_with_the_reason():
    for tuner in (make(task_of(allowed=0)) for make in STRATEGIES.values()):
        with pytest.raises(TunerError, match=r"all 120 configurations proposed cannot run.*"
                           r"x = \d+ is too large.*count_invalid=True"):  # fmt: skip
            tuner.tune(10, option())
        assert tuner.result.trials == 0
        assert tuner.filtered == 120


def test_the_reason_that_nothing_runs_is_given_in_full():
    @template("tests.tuner.cpp_entry")
    def cpp_entry():
        get_config().define_knob("u", [1, 2])
        args = [arg("a", (64,)), arg("b", (64,), role="out")]
        return SourceKernel("a_template_with_a_long_name<float, 4>", SOURCE, args)

    task = create("tests.tuner.cpp_entry", args=(), target="llvm")
    with pytest.raises(TunerError, match="name a function, and give it its numbers by"):
        GridSearchTuner(task).tune(10, option())


def test_a_strategy_that_proposes_nothing_else_ends_with_the_reason(caplog):
    with pytest.raises(TunerError, match="the first 4000 configurations proposed cannot run"):
        Stubborn(task_of(n=30, allowed=3)).tune(10, option())
    assert any("200 proposals in a row cannot run" in r.message for r in caplog.records)


def test_a_run_that_finds_no_more_ends_with_what_it_has():
    class Drying(Sequential):
        def has_next(self):
            return True

        def next_batch(self, batch_size):
            return super().next_batch(batch_size) or [self.space.get(39)] * batch_size

    result = Drying(task_of(n=30, allowed=3)).tune(100, option())
    assert result.trials == 12
    assert "the last 4000 proposals cannot run" in result.stop_reason


def test_time_that_is_up_ends_a_search_for_what_can_run():
    result = Stubborn(task_of(n=30, allowed=3)).tune(10, option(), timeout_s=0.001)
    assert result.trials == 0
    assert "0.001 s is used up" in result.stop_reason


def test_the_same_seed_gives_the_same_trials_in_reproducible_mode():
    def trials(seed):
        seen = []
        watch = lambda tuner, inputs, results: seen.extend(i.config.index for i in inputs)
        XGBTuner(task_of(n=200, allowed=60), seed=seed).tune(
            64, option(), callbacks=[watch], reproducible=True, finalists=0
        )
        return seen

    first = trials(1)
    assert len(first) == 64
    assert first == trials(1) != trials(2)


def test_results_are_taken_while_what_can_run_is_rare():
    """A search through many that cannot run does not keep results from callbacks and strategy."""
    order = []

    class Rare(Sequential):
        def next_batch(self, batch_size):
            order.append("proposed")
            return super().next_batch(batch_size)

        def update(self, inputs, results):
            order.extend("learned" for r in results if r.ok)

    Rare(task_of(n=400, allowed=2)).tune(8, option())
    assert order.index("learned") < len(order) - 1 - order[::-1].index("proposed")


def test_a_template_that_fails_by_itself_is_a_failed_trial():
    @template("tests.tuner.screening.broken")
    def broken(n):
        config = get_config()
        config.define_knob("x", list(range(n)))
        if config["x"].val > 1:
            raise ZeroDivisionError("a mistake in the template")
        return SourceKernel("scale", SOURCE, args=[arg("a", (64,)), arg("b", (64,), role="out")])

    seen = []
    task = create("tests.tuner.screening.broken", (6,), "c")
    option = measure_option(LocalBuilder(n_parallel=1), Counting())
    watch = lambda tuner, inputs, results: seen.extend(results)
    result = GridSearchTuner(task).tune(6, option, callbacks=[watch])
    assert (result.trials, result.filtered) == (6, 0)
    assert sum("a mistake in the template" in r.error_msg for r in seen) == 4


def test_templates_run_once_for_each_proposal(monkeypatch):
    runs = []
    realise = builder.realise
    monkeypatch.setattr(builder, "realise", lambda inp: runs.append(inp) or realise(inp))
    task = task_of(n=4, allowed=2)
    option = measure_option(LocalBuilder(n_parallel=1), Counting())
    GridSearchTuner(task).tune(16, option, finalists=0)
    assert len(runs) == 16


def test_an_interrupt_while_proposals_are_tested_loses_none(monkeypatch):
    tuner = Sequential(task_of(n=10, allowed=10))
    option_ = option()
    refusal = option_["builder"].refusal

    def interrupted(measure_input):
        if measure_input.config.index == 7:
            raise KeyboardInterrupt
        return refusal(measure_input)

    monkeypatch.setattr(option_["builder"], "refusal", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(40, option_)
    assert 7 in [config.index for config in tuner.cut_off]
    measured = tuner.result.trials
    again = tuner.tune(40, option())
    assert measured + again.trials == 40


def test_a_builder_that_cannot_tell_refuses_nothing():
    result = Sequential(task_of(n=4, allowed=2)).tune(
        16, measure_option(Empty(), Counting()), finalists=0
    )
    assert (result.trials, result.filtered) == (16, 0)


def test_count_invalid_is_a_truth_value():
    with pytest.raises(TunerError, match=r"count_invalid=.*expected True or False, got 'yes'"):
        RandomTuner(task_of()).tune(4, option(), count_invalid="yes")


def test_kernels_of_what_passed_are_compiled_and_run(caplog):
    caplog.set_level(logging.INFO)
    option = measure_option(
        LocalBuilder(n_parallel=2, timeout=60), LocalRunner(number=1, repeat=1, verify="all")
    )
    result = RandomTuner(task_of(n=8, allowed=4), seed=0).tune(6, option, finalists=0)
    assert (result.trials, result.failures) == (6, {})
    assert result.best_config["x"].val < 4


def refused_of(task, indices):
    inputs = inputs_of(task, indices)
    result = MeasureResult((), MeasureErrorNo.INSTANTIATION_ERROR, 0.0, 0.0, "too large")
    return inputs, [result] * len(inputs)


def measured_of(task, indices):
    inputs, _ = refused_of(task, indices)
    return inputs, [MeasureResult((1e-3 * (1 + i),), 0, 0.0, 0.0) for i in range(len(inputs))]


def test_what_cannot_run_takes_no_parents_place_in_a_generation():
    task = task_of(n=60, allowed=60)
    tuner = GATuner(task, pop_size=6, elite_num=0, seed=0)
    tuner.update(*measured_of(task, range(6)))
    tuner.update(*refused_of(task, range(100, 140)))
    assert set(tuner._generation) == set(range(6))
    assert set(range(100, 140)) <= tuner.visited


def test_annealing_does_not_cool_over_what_cannot_run():
    task = task_of(n=60, allowed=60)
    tuner = SimulatedAnnealingTuner(task, seed=0)
    proposed = [config.index for config in tuner.next_batch(4)]
    tuner.update(*refused_of(task, proposed))
    assert (tuner._measured, tuner._owner) == (0, {})


def test_a_model_learns_from_what_cannot_run_where_it_is_and_not_how_fast():
    task = task_of(n=60, allowed=60)
    tuner = XGBTuner(task, seed=0)
    tuner.update(*measured_of(task, range(12)))
    tuner.update(*refused_of(task, range(100, 140)))
    assert list(tuner._trials.rates) == list(range(12))
    assert list(tuner._trials.refused) == list(range(100, 140))
    assert tuner._trials.failing == pytest.approx(40 / 52)
    assert not {config.index for config in tuner.next_batch(8)} & set(range(100, 140))
