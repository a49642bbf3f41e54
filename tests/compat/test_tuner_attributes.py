"""Attributes of AutoTVM's tuners that scripts and subclasses look at."""

import numpy as np
import pytest

import autotune
from autotune.measure import MeasureInput, MeasureResult
from autotune.tuner import DropletTuner, GATuner, GridSearchTuner, RandomTuner, XGBTuner
from autotune.tuner.model_based_tuner import CostModel


@autotune.template("compat/knobs")
def knobs(n):
    cfg = autotune.get_config()
    cfg.define_knob("a", list(range(n)))
    cfg.define_knob("b", list(range(n)))
    cfg.add_flop(1000)
    return autotune.SourceKernel("f", "void f(float* x) {}", [autotune.arg("x", (1,), role="out")])


@pytest.fixture
def task():
    return autotune.create("compat/knobs", (6,), "llvm")


def measured(tuner, count):
    """Let a tuner propose, and tell it that larger indices are faster."""
    inputs, results = [], []
    for config in tuner.next_batch(count):
        inputs.append(MeasureInput(tuner.task.target, tuner.task, config))
        results.append(MeasureResult((1 / (config.index + 1),), 0, 0.1, 0.0))
    tuner.update(inputs, results)
    return [each.config.index for each in inputs]


@pytest.mark.parametrize("kind", [GridSearchTuner, RandomTuner])
def test_tuners_of_indices_know_their_range(task, kind):
    whole = kind(task)
    assert (whole.range_length, whole.begin_idx, whole.end_idx) == (36, 0, 35)
    part = kind(task, range_idx=(5, 14))
    assert (part.range_length, part.index_offset) == (10, 5)
    seen = measured(part, 20)
    assert sorted(seen) == list(range(5, 15))
    assert part.visited == set(seen)


def test_a_genetic_tuner_shows_its_generation(task):
    tuner = GATuner(task, pop_size=8, elite_num=2, seed=0)
    assert tuner.genes == tuner.elites == []
    seen = measured(tuner, 8)
    assert [task.config_space.knob2point(each) for each in tuner.genes] == seen
    assert tuner.scores == [index + 1 for index in seen]
    best = sorted(seen)[:-3:-1]
    assert [task.config_space.knob2point(each) for each in tuner.elites] == best
    assert tuner.elite_scores == [index + 1 for index in best]
    assert tuner.visited == set(seen)


def test_a_droplet_tuner_shows_where_it_is(task):
    tuner = DropletTuner(task, start_position=[2, 3], seed=0)
    assert tuner.best_choice == (-1, [0, 0], [1e9])
    (index,) = measured(tuner, 1)
    assert tuner.best_choice == (index, [2, 3], [1 / (index + 1)])
    measured(tuner, 4)
    assert tuner.best_choice[0] > index


def test_a_model_based_tuner_shows_what_it_learned_from(task):
    tuner = XGBTuner(task, seed=0)
    assert tuner.xs == tuner.ys == []
    assert isinstance(tuner.cost_model, CostModel)
    np.testing.assert_array_equal(tuner.cost_model.predict([1, 2]), [0, 0])
    seen = measured(tuner, 12)
    assert tuner.xs == seen
    np.testing.assert_allclose(tuner.ys, [1000 * (index + 1) for index in seen])
    assert tuner.visited == set(seen)
    model = tuner.cost_model
    assert tuner.cost_model is model
    scores = model.predict(list(range(36)))
    assert np.corrcoef(scores, np.arange(36))[0, 1] > 0.5
    measured(tuner, 1)
    assert tuner.cost_model is not model


def test_looking_at_the_model_changes_no_proposal(task):
    plain, watched = XGBTuner(task, seed=3), XGBTuner(task, seed=3)
    for _ in range(6):
        assert watched.cost_model is not None
        assert measured(plain, 3) == measured(watched, 3)
