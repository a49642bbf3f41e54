"""Trees that were fitted before predict without xgboost what they predict with it."""

import json

import numpy as np
import pytest

from autotune.cost_model import StoredTrees, Trees, TreeSettings


def some_rows(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 7)).astype(np.float32)


@pytest.mark.parametrize("depth", [1, 3, 6])
def test_stored_trees_predict_what_the_fitted_ones_do(depth):
    rows = some_rows(300)
    values = 5.0 + rows[:, 0] * rows[:, 1] - np.abs(rows[:, 2])
    trees = Trees.fit(rows, values.astype(np.float64), settings=TreeSettings(20, depth))
    others = some_rows(200, seed=1)
    # A split may be at a value that a row has.
    for each in (rows, others, others[:1], others[:0]):
        found = StoredTrees(trees.to_json()).predict(each)
        np.testing.assert_allclose(found, trees.predict(each), atol=1e-5)


def test_trees_of_one_leaf_are_stored_too():
    trees = Trees.fit(some_rows(10), np.full(10, 3.0), settings=TreeSettings(4))
    np.testing.assert_allclose(StoredTrees(trees.to_json()).predict(some_rows(3)), 3.0, atol=1e-4)


def test_the_mean_may_stand_there_as_older_versions_wrote_it():
    text = Trees.fit(some_rows(20), np.arange(20.0)).to_json()
    model = json.loads(text)
    mean = model["learner"]["learner_model_param"]["base_score"].strip("[]")
    for form in (mean, f"[{mean}]"):
        model["learner"]["learner_model_param"]["base_score"] = form
        found = StoredTrees(json.dumps(model).encode()).predict(some_rows(5))
        np.testing.assert_array_equal(found, StoredTrees(text).predict(some_rows(5)))
