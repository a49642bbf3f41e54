"""Trees: each loss learns what it says, whatever version of xgboost is installed."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from autotune.cost_model import PredictionRows, Trees, TreeSettings
from autotune.cost_model.blas import one_thread
from autotune.cost_model.metrics import (
    average_recall,
    cover_curve,
    max_curve,
    mean_curve,
    recall_curve,
)
from autotune.errors import TunerError


@pytest.fixture
def data():
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 8, (300, 4)).astype(np.float32)
    return rows, -((rows[:, 0] - 5.0) ** 2) - rows[:, 1].astype(np.float64)


@pytest.mark.parametrize("loss", ["reg", "rank", "rank-binary"])
def test_every_loss_finds_the_good_ones(data, loss):
    rows, values = data
    trees = Trees.fit(rows[:150], values[:150], loss)
    recall = average_recall(trees.predict(rows[150:]), values[150:], 40)
    shuffled = average_recall(np.random.default_rng(0).random(150), values[150:], 40)
    assert recall > shuffled + 0.3


def test_chances_are_probabilities(data):
    rows, _ = data
    ran = (rows[:, 2] < 4).astype(np.float64)
    chances = Trees.fit(rows, ran, "chance").predict(rows)
    assert ((chances > 0) & (chances < 1)).all()
    assert chances[ran == 1].min() > chances[ran == 0].max()


def test_a_pool_predicts_as_rows_do(data):
    rows, values = data
    trees = Trees.fit(rows, values)
    np.testing.assert_allclose(trees.predict(PredictionRows(rows)), trees.predict(rows))


def test_the_same_seed_gives_the_same_trees(data):
    rows, values = data
    first, second = (Trees.fit(rows, values, "rank", seed=3).predict(rows) for _ in range(2))
    assert (first == second).all()


def test_a_margin_is_where_learning_starts(data):
    rows, values = data
    trees = Trees.fit(rows, values, settings=TreeSettings(rounds=1), margin=values)
    error = np.abs(trees.predict(rows, margin=values) - values)
    assert error.mean() < 0.1 * np.abs(values - values.mean()).mean()


def test_importance_names_what_matters(data):
    rows, values = data
    gains = Trees.fit(rows, values).importance(["a", "b", "c", "d"])
    assert max(gains, key=gains.get) == "a"


def test_an_unknown_loss_is_refused(data):
    with pytest.raises(TunerError, match="one of reg, rank, rank-binary; got 'mse'"):
        Trees.fit(*data, loss="mse")


def test_without_xgboost_the_error_says_what_to_install(data, monkeypatch):
    rows, values = data
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(TunerError, match=r"xgboost cannot be imported .*pip install xgboost-cpu"):
        Trees.fit(rows, values)


def test_numpy_gets_its_threads_back():
    from autotune.cost_model import blas

    before = [get() for get, _ in blas._knobs(())]
    with one_thread():
        assert all(get() == 1 for get, _ in blas._knobs(()))
    assert [get() for get, _ in blas._knobs(())] == before


def test_a_library_that_is_loaded_later_is_kept_on_one_thread_too():
    code = """
        from autotune.cost_model import blas
        with blas.one_thread():
            first = blas._knobs(("numpy",))
        with blas.one_thread("scipy.linalg"):
            all_of_them = blas._knobs.__wrapped__(("numpy", "scipy.linalg"))
            print(len(first) <= len(all_of_them), {get() for get, _ in all_of_them} <= {1})
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"]


def test_curves_of_a_ranking():
    ranks = np.array([1, 0, 3, 2])
    np.testing.assert_allclose(recall_curve(ranks), [0, 1, 2 / 3, 1])
    np.testing.assert_allclose(recall_curve(ranks, top=2), [0.5, 1, 1, 1])
    np.testing.assert_allclose(cover_curve(ranks), [0, 1, 2 / 3, 1])
    np.testing.assert_allclose(max_curve(np.array([1.0, 3.0, 2.0])), [1, 3, 3])
    np.testing.assert_allclose(mean_curve(np.array([1.0, 3.0, 2.0])), [1, 2, 2])


@pytest.mark.parametrize("error", ["ImportError", "RuntimeError"])
def test_an_import_that_a_program_does_not_wait_for_fails_without_a_word(error, tmp_path):
    (tmp_path / "xgboost.py").write_text(f"raise {error}('the program is about to end')\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    code = "from autotune.cost_model import load_meanwhile; load_meanwhile()"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
