"""Estimates are corrected by what the trials of all workloads show, those that ship among them."""

import subprocess
import sys

import numpy as np
import pytest

from autotune.auto_scheduler import ComputeDAG, RandomModel, SearchTask, SketchPolicy, XGBModel
from autotune.auto_scheduler.search.analytical.gpu import FEATURES
from autotune.auto_scheduler.search.models import descriptor
from autotune.auto_scheduler.search.models.common_model import (
    CommonModel,
    residuals_of,
    with_workload,
)
from autotune.auto_scheduler.search.models.prior import (
    FILE,
    fitted,
    gpu_prior,
    shipped_prior,
    training_columns,
)
from autotune.auto_scheduler.search.models.row_model import RowModel
from autotune.cost_model import PredictionRows
from benchmarks.auto_scheduler.prior import fingerprint, spearman
from tests.auto_scheduler.graphs import matmul

NOWHERE = np.zeros(2, np.float32)


def knows_what_ships(model, target):
    task = SearchTask(compute_dag=ComputeDAG(matmul(64, 64, 64)), target=target)
    member = SketchPolicy(task, model, seed=0, verbose=0).proposer.member
    rows = np.ones((3, FEATURES + descriptor.COLUMNS + 1), np.float32)
    return member is not None and bool(member.group.model.predict(rows).any())


def test_what_ships_was_made_with_the_features_of_today():
    with np.load(FILE) as data:
        assert data["features"].shape == (len(data["residuals"]), FEATURES)
        assert data["descriptors"].shape == (len(data["residuals"]), descriptor.COLUMNS)
        assert np.isfinite(data["residuals"]).all()
        message = "analytical features have changed: run python -m benchmarks.auto_scheduler.prior"
        found, want = fingerprint(data["rows"]), data["fingerprint"]
        np.testing.assert_allclose(found, want, 1e-4, 1e-4, err_msg=message)


def test_the_trees_that_ship_are_those_of_the_trials_that_ship():
    with np.load(FILE) as data:
        features, residuals = training_columns(data)
    anew = fitted(features, residuals).predict(features)
    found = gpu_prior().trees.predict(features)
    assert np.corrcoef(anew, found)[0, 1] > 0.99
    assert np.corrcoef(found, residuals)[0, 1] > 0.8


def test_the_first_proposals_for_a_gpu_need_no_xgboost():
    """Its import takes longer than they do."""
    script = (
        "import sys\n"
        "sys.modules['xgboost'] = None\n"
        "from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy, XGBModel\n"
        "from tests.auto_scheduler.graphs import matmul\n"
        "dag = ComputeDAG(matmul(64, 64, 64))\n"
        "task = SearchTask(compute_dag=dag, target='cuda -arch=sm_90')\n"
        "print(len(SketchPolicy(task, XGBModel(), seed=0).propose(12)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "12\n", done.stderr


def test_a_workload_can_be_left_out_of_what_is_known():
    with np.load(FILE) as data:
        names = tuple(map(str, np.unique(data["workloads"])))
    whole, part = gpu_prior(), gpu_prior((names[0],))
    assert whole is not None
    some = whole.features[:50]
    assert not np.array_equal(whole.trees.predict(some), part.trees.predict(some))
    assert gpu_prior(names) is None


@pytest.mark.parametrize(
    ("model", "target", "known"),
    [(XGBModel(), "cuda -arch=sm_90", True), (RandomModel(), "cuda -arch=sm_90", False),
     (XGBModel(), "llvm", False)],
)  # fmt: skip
def test_searches_for_a_gpu_that_rank_know_it(model, target, known):
    assert knows_what_ships(model, target) == known


def some_trials(seed, tiles=True):
    """Return trials that take longer than estimated the larger the first feature is."""
    rng = np.random.default_rng(seed)
    features = rng.random((200, 4)).astype(np.float32)
    estimates = 1e-5 * 2.0 ** rng.normal(0, 0.2, 200)
    seconds = estimates * 2.0 ** (2 * features[:, 0])
    return with_workload(features, NOWHERE, tiles), estimates, seconds


def taught(tiles=True):
    features, estimates, seconds = some_trials(0, tiles)
    return CommonModel(shipped_prior(features, residuals_of(estimates, seconds)))


def test_before_anything_is_measured_it_ranks_as_other_workloads_say():
    model = RowModel(0, taught())
    features, estimates, seconds = some_trials(1)
    scores, doubts = model.predict(features, estimates)
    assert spearman(scores, -seconds) > 0.9 > spearman(-estimates, -seconds)
    assert not doubts.any()


def test_measurements_that_contradict_it_are_believed():
    model = RowModel(0, taught())
    features, estimates, _ = some_trials(0)
    other = estimates * 2.0 ** (-2 * features[:, 0])
    model.fit(features, estimates, other)
    assert spearman(model.predict(features, estimates)[0], -other) > 0.9


def test_what_others_say_is_believed_as_far_as_it_was_right_of_new_trials():
    right, wrong = RowModel(0, taught()), RowModel(0, taught())
    features, estimates, seconds = some_trials(1)
    assert right.common_weight == wrong.common_weight == 1.0
    right.judge(features, estimates, seconds)
    wrong.judge(features, estimates, estimates * 2.0 ** (-2 * features[:, 0]))
    assert right.common_weight > 0.9
    assert wrong.common_weight == 0.0
    failed = np.full(len(seconds), np.inf)
    right.judge(features, estimates, failed)
    assert right.common_weight > 0.9, "failures say nothing of it"


def test_of_what_has_no_tiles_nothing_is_learned_and_nothing_is_said():
    features, estimates, seconds = some_trials(0, tiles=False)
    assert not taught().predict(features).any()
    model = CommonModel()
    model.learn("untiled", features, estimates, seconds)
    assert model.count == 0


def test_a_model_that_grows_keeps_what_it_knew_and_learns_what_is_new():
    """A few trees more are enough until there are half as many trials again."""
    model = taught()
    for number in range(4):
        features, estimates, _ = some_trials(number + 1)
        features[:, -3:-1] = 5.0  # another workload, where the second feature decides
        seconds = estimates * 2.0 ** (2 * features[:, 1])
        model.learn(f"other {number}", features[:80], estimates[:80], seconds[:80])
        assert spearman(-model.predict(features[80:]), features[80:, 1]) > 0.8
    features, estimates, seconds = some_trials(9)
    assert spearman(model.predict(features) - np.log2(estimates), -seconds) > 0.9
    assert model.count == 320


def test_nothing_is_learned_of_nothing():
    assert shipped_prior(np.empty((0, 4), np.float32), np.empty(0)) is None
    model = CommonModel()
    assert not model.predict(some_trials(0)[0]).any()


def test_rows_are_taken_to_be_no_faster_than_most_trials_that_ship():
    features = np.repeat(np.eye(4, dtype=np.float32), 50, axis=0)[:, [0, 1, 2, 3, 3]]
    features[:, -1] = 1.0
    residuals = np.repeat([0.0, 0.5, 1.0, 1.0], 50)
    residuals[-1] = 60.0  # Of one row in 200.
    shipped = shipped_prior(features, residuals)
    one = features[-1:]
    assert shipped.trees.predict(PredictionRows(one, 1))[0] > 1.2
    assert CommonModel(shipped).predict(one)[0] == 1.0


def test_without_trials_that_ship_a_row_may_be_as_fast_as_it_was():
    features = np.repeat(np.eye(2, dtype=np.float32), 20, axis=0)[:, [0, 1, 1]]
    features[:, -1] = 1.0
    seconds = np.repeat([1.0, 1 / 64], 20)
    model = CommonModel()
    model.learn("mine", features, np.ones(40), seconds)
    slow, fast = model.predict(features[[0, -1]])
    assert fast - slow > 5.5
