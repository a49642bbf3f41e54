"""The model-guided tuner: learning, huge spaces, history, and AutoTVM's classes."""

import resource
import time
from pathlib import Path

import numpy as np
import pytest

from autotune import te
from autotune.errors import TunerError
from autotune.features import KnobFeatures
from autotune.kernel import SourceKernel
from autotune.measure import MeasureErrorNo, MeasureInput, MeasureResult
from autotune.task import ApplyConfig, FallbackContext, create, get_config, template
from autotune.tuner import (
    AutoTuner,
    ModelBasedTuner,
    RandomTuner,
    Recording,
    SimulatedAnnealingOptimizer,
    XGBoostCostModel,
    XGBTuner,
)
from autotune.tuner.model_based_tuner import submodular_pick
from autotune.tuner.models.candidates import far_points
from autotune.tuner.models.prior import trust
from tests.pace import is_within

SPACES = Path(__file__).parent.parent / "data" / "recorded_spaces"


@template("tests.xgb.gemm")
def gemm(n):
    config = get_config()
    for axis in ("m", "n", "k"):
        config.define_split(f"tile_{axis}", n, num_outputs=4)
    config.define_knob("unroll", [0, 16, 512])
    config.multi_filter(lambda c: c["tile_m"].size[2] * c["tile_n"].size[2] <= 1024)


@template("tests.xgb.source")
def source():
    get_config().define_knob("x", list(range(30)))
    return SourceKernel("k", source="void k(void) {}", args=[], grid=(1,), block=(1,))


def cost(config):
    """Fast around 8x8 threads of 4x4 work, a little smaller for k."""
    wanted = {"tile_m": (1, 8, 4), "tile_n": (1, 8, 4), "tile_k": (1, 2, 4)}
    away = sum(
        abs(np.log2(size / best))
        for name, sizes in wanted.items()
        for size, best in zip(config[name].size[1:], sizes, strict=True)
    )
    return 1e-3 * (1 + 0.2 * away) * (1.1 if config["unroll"].val == 0 else 1.0)


def measured(task, configs, cost=cost):
    results = [MeasureResult((cost(c),), 0, 0.1, 0.0) for c in configs]
    return [MeasureInput(task.target, task, c) for c in configs], results


def best_of(task, tuner, trials, batch=8):
    best = np.inf
    for _ in range(trials // batch):
        inputs, results = measured(task, tuner.next_batch(batch))
        best = min(best, *(r.mean for r in results))
        tuner.update(inputs, results)
    return best


@template("tests.xgb.matmul")
def matmul(n):
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    schedule = te.create_schedule(c.op)
    config = get_config()
    y, x = schedule[c].op.axis
    (z,) = schedule[c].op.reduce_axis
    for name, axis in (("tile_y", y), ("tile_x", x), ("tile_k", z)):
        config.define_split(name, axis, num_outputs=2)
    yo, yi = config["tile_y"].apply(schedule, c, y)
    xo, xi = config["tile_x"].apply(schedule, c, x)
    ko, ki = config["tile_k"].apply(schedule, c, z)
    schedule[c].reorder(yo, xo, ko, yi, ki, xi)
    return schedule, [a, b, c]


def loop_cost(config):
    y, x, k = (config[f"tile_{axis}"].size[1] for axis in "yxk")
    return 1e-3 * (1 + abs(np.log2(y * x) - 5) + 0.3 * abs(np.log2(k) - 2))


@pytest.mark.parametrize("feature_type", ["itervar", "curve"])
def test_loops_of_schedules_can_be_looked_at(feature_type):
    task = create("tests.xgb.matmul", (64,), "c")
    tuner = XGBTuner(task, feature_type=feature_type, seed=0)
    best = np.inf
    for _ in range(8):
        inputs, results = measured(task, tuner.next_batch(5), loop_cost)
        best = min(best, *(r.mean for r in results))
        tuner.update(inputs, results)
    assert best < 1.4e-3


def test_a_cost_model_learns_from_loops():
    task = create("tests.xgb.matmul", (64,), "c")
    xs = task.config_space.sample(120, np.random.default_rng(0)).tolist()
    rates = np.array([1 / loop_cost(task.config_space.get(i)) for i in xs])
    model = XGBoostCostModel(task, "itervar", "rank")
    model.fit(xs[:80], rates[:80], 16)
    assert np.corrcoef(model.predict(xs[80:]), rates[80:])[0, 1] > 0.7


def test_source_kernels_have_knobs_only(caplog):
    XGBTuner(create("tests.xgb.source", (), "c"), feature_type="itervar", seed=0)
    assert "going on with knob features" in caplog.text


@pytest.mark.many_cases
@pytest.mark.parametrize("loss", ["reg", "rank", "rank-binary"])
def test_it_beats_random_search_on_a_large_space(loss):
    task = create("tests.xgb.gemm", (1024,), "c")
    assert len(task.config_space) > 1e7
    random = best_of(task, RandomTuner(task, seed=1), 160)
    assert best_of(task, XGBTuner(task, loss_type=loss, seed=1), 160) < 0.85 * random


def test_rounds_of_64_on_a_space_of_1e12_are_quick_and_small():
    task = create("tests.xgb.gemm", (2**40,), "c")
    assert task.config_space.range_length > 1e12
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tuner = AutoTuner(task, seed=0)
    spent = []
    for _ in range(4):
        start = time.thread_time()  # the others may wait in loops
        configs = tuner.next_batch(64)
        spent.append((time.thread_time() - start) / 64)
        tuner.update(*measured(task, configs))
    assert is_within(np.mean(spent), 0.020)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 * 1024


def test_failures_are_learned_to_be_avoided():
    task = create("tests.xgb.gemm", (256,), "c")
    space = task.config_space

    def fails(c):
        return c["tile_m"].size[3] * c["tile_n"].size[3] > 4

    tuner = XGBTuner(task, seed=2)
    shares = []
    for _ in range(15):
        configs = tuner.next_batch(10)
        results = [
            MeasureResult((), MeasureErrorNo.RUNTIME_DEVICE, 0.1, 0.0, "too many registers")
            if fails(c)
            else MeasureResult((cost(c),), 0, 0.1, 0.0)
            for c in configs
        ]
        shares.append(np.mean([not r.ok for r in results]))
        tuner.update([MeasureInput(task.target, task, c) for c in configs], results)
    drawn = space.sample(400, np.random.default_rng(0))
    at_random = np.mean([fails(space.get(int(i))) for i in drawn])
    assert np.mean(shares[-5:]) < 0.5 * at_random


def far_apart(features, indices):
    places = features.smooth(indices)
    gaps = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    return np.min(gaps[~np.eye(len(places), dtype=bool)])


def test_the_first_trials_are_far_from_each_other_and_from_what_is_known():
    space = create("tests.xgb.gemm", (256,), "c").config_space
    features, rng = KnobFeatures(space), np.random.default_rng(0)
    first = far_points(space, features, rng, 8, set())
    more = far_points(space, features, rng, 8, set(first))
    at_random = space.sample(16, rng).tolist()
    assert len({*first, *more}) == 16
    assert far_apart(features, first + more) > 2 * far_apart(features, at_random)


def test_what_an_untuned_template_uses_is_tried_first():
    tuner = XGBTuner(create("tests.xgb.source", args=(), target="llvm"), seed=0)
    first, *others = tuner.next_batch(10)
    assert first.index == tuner.task.default().index
    assert len({first.index, *(each.index for each in others)}) == 10


def test_the_record_of_a_pack_is_tried_before_it(monkeypatch):
    task = create("tests.xgb.source", args=(), target="llvm")
    pack = ApplyConfig(task.config_space.get(17))
    monkeypatch.setattr("autotune.task.dispatcher._provided", [pack])
    tried = [each.index for each in XGBTuner(task, seed=0).next_batch(10)]
    assert tried[:2] == [17, task.default().index]
    with FallbackContext():
        assert XGBTuner(task, seed=0).next_batch(1)[0].index == task.default().index


def test_after_many_failures_the_first_trials_are_random():
    task = create("tests.xgb.gemm", (256,), "c")
    tuner = XGBTuner(task, seed=0)

    def edge(configs):
        places = tuner.features.smooth([c.index for c in configs])
        return np.mean(np.minimum(places, 1 - places) <= 0)

    before = tuner.next_batch(30)
    failure = MeasureResult((), MeasureErrorNo.RUNTIME_DEVICE, 0.1, 0.0, "no")
    tuner.update([MeasureInput(task.target, task, c) for c in before], [failure] * 30)
    assert edge(tuner.next_batch(30)) < edge(before) - 0.05


def test_history_of_another_shape_gives_a_head_start():
    other = create("tests.xgb.gemm", (512,), "c")
    task = create("tests.xgb.gemm", (1024,), "c")
    rng = np.random.default_rng(0)
    known = [other.config_space.get(int(i)) for i in other.config_space.sample(200, rng)]
    pairs = list(zip(*measured(other, known), strict=True))

    def after_16(history):
        tuner = XGBTuner(task, seed=5)
        tuner.load_history(history)
        return best_of(task, tuner, 16)

    assert after_16(pairs) < 0.9 * after_16([])


def test_history_that_misleads_is_dropped():
    assert trust(np.linspace(-1, 1, 30), np.linspace(1, -1, 30)) == 0.0
    noise = np.random.default_rng(0).normal(size=(2, 200))
    assert trust(*noise) == 0.0


def test_history_that_agrees_is_followed_less_the_more_trials_there_are():
    few, many = (trust(line, line) for line in (np.linspace(-1, 1, 10), np.linspace(-1, 1, 300)))
    assert few > 0.7
    assert many < 0.1


def test_history_of_other_templates_and_failures_is_ignored():
    task = create("tests.xgb.gemm", (64,), "c")
    recording = Recording.load(SPACES / "gemm__RTX_Titan.npz")
    strange = recording.task()
    config = strange.config_space.get(int(strange.config_space.indices(recording.codes[:1])[0]))
    pairs = [(MeasureInput(strange.target, strange, config), recording.results[0])] * 20
    with_history, without = XGBTuner(task, seed=1), XGBTuner(task, seed=1)
    with_history.load_history(pairs)
    first = [[c.index for c in tuner.next_batch(8)] for tuner in (with_history, without)]
    assert first[0] == first[1]


def test_wrong_arguments_name_what_is_known():
    task = create("tests.xgb.gemm", (64,), "c")
    with pytest.raises(TunerError, match="one of 'knob', 'itervar', 'curve', got 'loops'"):
        XGBTuner(task, feature_type="loops")
    with pytest.raises(
        TunerError, match="loss_type must be one of 'reg', 'rank', 'rank-binary', got 'mse'"
    ):
        XGBTuner(task, loss_type="mse")


def test_a_tiny_space_needs_no_model():
    @template("tests.xgb.tiny")
    def tiny():
        get_config().define_knob("x", list(range(9)))

    tuner = AutoTuner(create("tests.xgb.tiny", (), "c"), seed=0)
    assert tuner.reason == "all 9 configurations are tried"


def test_the_annealer_finds_the_models_optimum_quickly():
    task = create("tests.xgb.gemm", (1024,), "c")
    space = task.config_space
    xs = space.sample(256, np.random.default_rng(0))
    model = XGBoostCostModel(task, "knob", "reg")
    model.fit(xs.tolist(), np.array([1 / cost(space.get(int(i))) for i in xs]), 64)
    optimizer = SimulatedAnnealingOptimizer(task, early_stop=None, seed=1)
    start = time.thread_time()
    found = optimizer.find_maximums(model, 32, set(xs.tolist()))
    assert is_within(time.thread_time() - start, 4)  # 500 steps of 128 chains
    assert len(set(found)) == 32
    assert space.is_valid(found).all()
    assert not set(found) & set(xs.tolist())
    scores = model.predict(found)
    assert (np.diff(scores) <= 1e-6).all()
    assert scores[0] >= model.predict(xs).max()


def test_a_model_of_ones_own_guides_a_plan():
    task = create("tests.xgb.gemm", (256,), "c")
    model = XGBoostCostModel(task, "knob", "rank", seed=0)
    optimizer = SimulatedAnnealingOptimizer(task, n_iter=60, parallel_size=32, seed=0)
    tuner = ModelBasedTuner(task, model, optimizer, 32, diversity_filter_ratio=2, seed=0)
    assert best_of(task, tuner, 192, 16) < best_of(task, RandomTuner(task, seed=0), 192, 16)
    assert tuner.train_ct == 6


def test_a_base_model_makes_the_first_plan():
    other = create("tests.xgb.gemm", (128,), "c")
    task = create("tests.xgb.gemm", (256,), "c")
    rng = np.random.default_rng(0)
    known = [other.config_space.get(int(i)) for i in other.config_space.sample(150, rng)]
    model = XGBoostCostModel(task, "knob", "reg")
    optimizer = SimulatedAnnealingOptimizer(task, n_iter=60, parallel_size=32, seed=0)
    tuner = ModelBasedTuner(task, model, optimizer, 32, seed=0)
    tuner.load_history(zip(*measured(other, known), strict=True), min_seed_records=100)
    planned = np.mean([cost(c) for c in tuner.next_batch(16)])
    assert planned < 0.8 * np.mean([cost(c) for c in RandomTuner(task, seed=0).next_batch(64)])


def test_diverse_picks_prefer_new_values():
    knobs = np.array([[0, 0], [0, 0], [1, 1]])
    assert submodular_pick([1.0, 0.9, 0.5], knobs, 2) == [0, 2]


def test_what_has_no_effect_is_said_once(caplog):
    task = create("tests.xgb.gemm", (64,), "c")
    with caplog.at_level("WARNING", "autotvm"):
        XGBTuner(task)
        assert not caplog.records
        for _ in range(2):
            XGBTuner(task, diversity_filter_ratio=2.5, log_interval=20)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "XGBTuner: no effect: diversity_filter_ratio, log_interval; ModelBasedTuner is AutoTVM's "
        "own way"
    ]


@pytest.mark.parametrize("ratio", ["2", 0.5, True, float("nan"), [2]])
def test_a_diversity_ratio_is_a_number_of_at_least_one(ratio):
    task = create("tests.xgb.gemm", (256,), "c")
    model = XGBoostCostModel(task, "knob", "rank", seed=0)
    optimizer = SimulatedAnnealingOptimizer(task, n_iter=60, parallel_size=32, seed=0)
    with pytest.raises(TunerError, match="diversity_filter_ratio must be a number of at least 1"):
        ModelBasedTuner(task, model, optimizer, 32, diversity_filter_ratio=ratio)
