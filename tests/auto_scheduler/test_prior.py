"""Drafts for a GPU are corrected by what trials of other workloads showed."""

import numpy as np
import pytest

from autotune.auto_scheduler import ComputeDAG, RandomModel, SearchTask, SketchPolicy, XGBModel
from autotune.auto_scheduler.search.forms_gpu import FEATURES
from autotune.auto_scheduler.search.prior import FILE, fitted, gpu_prior, residuals_of
from autotune.auto_scheduler.search.row_model import RowModel
from benchmarks.scheduler_prior import fingerprint, spearman
from tests.auto_scheduler.graphs import matmul


def prior_of(model, target):
    task = SearchTask(compute_dag=ComputeDAG(matmul(64, 64, 64)), target=target)
    return SketchPolicy(task, model, seed=0, verbose=0).proposer.model._prior


def test_what_ships_was_made_with_the_closed_forms_of_today():
    with np.load(FILE) as data:
        assert data["features"].shape == (len(data["residuals"]), FEATURES)
        assert np.isfinite(data["residuals"]).all()
        message = "run python -m benchmarks.scheduler_prior on logs: closed forms have changed"
        found, want = fingerprint(data["rows"]), data["fingerprint"]
        np.testing.assert_allclose(found, want, 1e-4, 1e-4, err_msg=message)


def test_a_workload_can_be_left_out_of_what_is_known():
    with np.load(FILE) as data:
        names = tuple(map(str, np.unique(data["workloads"])))
        features = data["features"][:50].astype(np.float32)
    whole, part = gpu_prior(), gpu_prior((names[0],))
    assert whole is not None
    assert not np.array_equal(whole.predict(features), part.predict(features))
    assert gpu_prior(names) is None


@pytest.mark.parametrize(
    ("model", "target", "known"),
    [(XGBModel(), "cuda -arch=sm_90", True), (RandomModel(), "cuda -arch=sm_90", False),
     (XGBModel(), "llvm", False)],
)  # fmt: skip
def test_searches_for_a_gpu_that_rank_know_it(model, target, known):
    assert (prior_of(model, target) is not None) == known


def some_trials(seed):
    """Return trials that take longer than drafted the larger the first feature is."""
    rng = np.random.default_rng(seed)
    features = rng.random((200, 4)).astype(np.float32)
    drafts = 1e-5 * 2.0 ** rng.normal(0, 0.2, 200)
    return features, drafts, drafts * 2.0 ** (2 * features[:, 0])


def test_before_anything_is_measured_it_ranks_as_other_workloads_say():
    features, drafts, seconds = some_trials(0)
    model = RowModel(0, fitted(features, residuals_of(drafts, seconds)))
    features, drafts, seconds = some_trials(1)
    scores, doubts = model.predict(features, drafts)
    assert spearman(scores, -seconds) > 0.9 > spearman(-drafts, -seconds)
    assert not doubts.any()


def test_measurements_that_contradict_it_are_believed():
    features, drafts, seconds = some_trials(0)
    model = RowModel(0, fitted(features, residuals_of(drafts, seconds)))
    other = drafts * 2.0 ** (-2 * features[:, 0])
    model.fit(features, drafts, other)
    assert spearman(model.predict(features, drafts)[0], -other) > 0.9


def test_nothing_is_learned_of_nothing():
    assert fitted(np.empty((0, 4), np.float32), np.empty(0)) is None
