"""What every tuner promises."""

import numpy as np
import pytest

from autotune.measure import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.task import TASK_TABLE, create, get_config, template
from autotune.tuner import (
    AskTellTuner,
    AutoTuner,
    DropletTuner,
    GATuner,
    GridSearchTuner,
    ModelBasedTuner,
    RandomTuner,
    SimulatedAnnealingOptimizer,
    SimulatedAnnealingTuner,
    XGBoostCostModel,
    XGBTuner,
)


class AtRandom:
    """An outside optimiser that proposes anything, valid or not."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def ask(self, knobs):
        return None, {name: int(self.rng.integers(n)) for name, n in knobs.items()}

    def tell(self, token, seconds):
        assert seconds is None or seconds > 0


def model_based(task, seed):
    model = XGBoostCostModel(task, "knob", "rank", seed=seed)
    optimizer = SimulatedAnnealingOptimizer(task, n_iter=20, parallel_size=16, seed=seed)
    return ModelBasedTuner(task, model, optimizer, 16, 2, seed=seed)


TUNERS = {
    "grid": lambda task, seed: GridSearchTuner(task, seed=seed),
    "random": lambda task, seed: RandomTuner(task, seed=seed),
    "ga": lambda task, seed: GATuner(task, pop_size=12, seed=seed),
    "annealing": lambda task, seed: SimulatedAnnealingTuner(task, seed=seed),
    "droplet": lambda task, seed: DropletTuner(task, seed=seed),
    "xgb": lambda task, seed: XGBTuner(task, seed=seed),
    "xgb-rank": lambda task, seed: XGBTuner(task, loss_type="rank", plan_size=8, seed=seed),
    "xgb-binary": lambda task, seed: XGBTuner(task, loss_type="rank-binary", seed=seed),
    "auto": lambda task, seed: AutoTuner(task, seed=seed),
    "model-based": model_based,
    "ask-tell": lambda task, seed: AskTellTuner(task, AtRandom(seed), seed=seed),
}
every_tuner = pytest.mark.parametrize("make", TUNERS.values(), ids=TUNERS.keys())


@pytest.fixture
def task_of():
    """Make tasks of a template with the given knobs, and a filter."""
    made = []

    def make(knobs, keep=None, name="contract.tuners"):
        @template(name)
        def run():
            config = get_config()
            for knob, values in knobs.items():
                config.define_knob(knob, values)
            if keep is not None:
                config.multi_filter(keep)

        made.append(name)
        return create(name, (), "c")

    yield make
    for name in made:
        del TASK_TABLE[name]


WIDE = {"x": [1, 2, 4, 8, 16], "y": list(range(1, 13)), "layout": ["row", "column"]}


def seconds(config):
    x, y = config["x"].val, config["y"].val
    layout = 1.0 if config["layout"].val == "row" else 1.7
    return layout * (1 + abs(np.log2(x) - 2) + abs(y - 7) / 3) * 1e-3


def measured(task, configs, cost=seconds):
    inputs = [MeasureInput(task.target, task, config) for config in configs]
    return inputs, [result(cost(config)) for config in configs]


def result(cost):
    if cost is None:
        return MeasureResult((), MeasureErrorNo.COMPILE_DEVICE, 0.1, 0.0, "no such luck")
    return MeasureResult((cost,), 0, 0.1, 0.0)


def run(task, tuner, trials, batch=5, cost=seconds):
    order = []
    while len(order) < trials and tuner.has_next():
        configs = tuner.next_batch(min(batch, trials - len(order)))
        if not configs:
            break
        order += [config.index for config in configs]
        tuner.update(*measured(task, configs, cost))
    return order


@every_tuner
def test_no_point_is_proposed_twice(make, task_of):
    task = task_of(WIDE)
    order = run(task, make(task, 1), 120)
    assert len(order) == len(set(order)) == 120


@every_tuner
def test_constraints_are_honoured(make, task_of):
    task = task_of(WIDE, lambda c: c["x"].val * c["y"].val <= 40)
    order = run(task, make(task, 2), 60)
    assert len(order) == 60
    assert task.config_space.is_valid(order).all()


@every_tuner
@pytest.mark.parametrize("size", [1, 2, 7])
def test_an_exhausted_space_ends_the_search(make, size, task_of):
    task = task_of({"a": list(range(size)), "b": ["only"]})
    tuner = make(task, 3)
    order = run(task, tuner, 100, cost=lambda c: 1.0 + c["a"].val)
    assert sorted(order) == list(range(size))
    assert not tuner.has_next() or not tuner.next_batch(1)


@every_tuner
def test_a_constrained_space_is_exhausted_too(make, task_of):
    task = task_of(WIDE, lambda c: c["x"].val == 4 and c["y"].val < 5)
    order = run(task, make(task, 4), 1000)
    assert len(order) == len(task.config_space) == 8


@every_tuner
def test_batches_that_all_fail_do_not_stop_the_search(make, task_of):
    task = task_of(WIDE)
    order = run(task, make(task, 5), 120, cost=lambda c: None)
    assert len(set(order)) == 120


@pytest.mark.many_cases
@every_tuner
def test_the_same_seed_gives_the_same_sequence(make, task_of):
    task = task_of(WIDE)
    first, second = (run(task, make(task, 6), 60) for _ in range(2))
    assert first == second


@every_tuner
def test_proposals_go_on_while_results_are_outstanding(make, task_of):
    task = task_of(WIDE)
    tuner = make(task, 7)
    waiting = [tuner.next_batch(3) for _ in range(4)]
    proposed = [config.index for batch in waiting for config in batch]
    for _ in range(8):
        tuner.update(*measured(task, waiting.pop(0)))
        waiting.append(tuner.next_batch(3))
        proposed += [config.index for config in waiting[-1]]
    assert len(proposed) == len(set(proposed)) == 36


@every_tuner
def test_what_was_measured_elsewhere_is_not_proposed(make, task_of):
    task = task_of(WIDE)
    tuner = make(task, 8)
    known = [task.config_space.get(i) for i in range(0, 120, 2)]
    tuner.update(*measured(task, known))
    order = run(task, tuner, 60)
    assert sorted(order) == list(range(1, 120, 2))


@pytest.mark.many_cases
@every_tuner
def test_a_tuner_can_be_reset(make, task_of):
    task = task_of(WIDE)
    tuner = make(task, 9)
    run(task, tuner, 30)
    tuner.reset()
    assert tuner.best_config is None
    assert len(run(task, tuner, 20)) == 20
