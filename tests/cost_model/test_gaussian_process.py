"""The process in numpy: right, and the same however it was grown."""

import ctypes
import subprocess

import numpy as np
import pytest

from autotune.cost_model import GaussianProcess, Posterior
from autotune.cost_model.gaussian_process import factor, finite_product


@pytest.fixture
def points():
    rng = np.random.default_rng(0)
    x = rng.random((40, 3))
    y = np.sin(6 * x[:, 0]) + 0.3 * x[:, 1]
    return x, (y - y.mean()) / y.std(), rng


def test_the_gradient_is_that_of_the_loss(points):
    from scipy.optimize import check_grad  # which all processes would load to collect this

    x, y, rng = points
    process = GaussianProcess(3)
    squares = ((x[:, None] - x[None]) ** 2).reshape(-1, 3)
    for _ in range(3):
        at = rng.normal(0, 0.5, 5)
        loss = lambda log: process._loss(log, squares, y)[0]
        slope = lambda log: process._loss(log, squares, y)[1]
        assert check_grad(loss, slope, at) < 1e-3


def test_it_predicts_what_it_has_not_seen(points):
    x, y, rng = points
    process = GaussianProcess(3)
    process.fit(x[:30], y[:30], rng)
    predicted = Posterior(process, x[:30], x[30:]).mean(y[:30])
    assert np.corrcoef(predicted, y[30:])[0, 1] > 0.95


def test_it_finds_which_features_matter(points):
    x, y, rng = points
    process = GaussianProcess(3)
    process.fit(x, y, rng)
    stretch = process.scaled(np.ones((1, 3)))[0]
    assert stretch[0] > 2 * stretch[2]


def test_what_is_measured_is_certain_and_what_is_far_is_not(points):
    x, y, rng = points
    process = GaussianProcess(3)
    process.fit(x, y, rng)
    posterior = Posterior(process, x, np.concatenate([x[:5], np.full((1, 3), 9.0)]))
    assert posterior.variance[:5].max() < 0.1 * posterior.variance[5]


@pytest.mark.parametrize("first", [5, 20, 39])
def test_growing_equals_starting_whole(points, first):
    x, y, rng = points
    process = GaussianProcess(3)
    process.fit(x, y, rng)
    pool = rng.random((90, 3))
    whole = Posterior(process, x, pool)
    grown = Posterior(process, x[:first], pool[:50])
    grown.append(x[first:])
    grown.widen(pool[50:])
    np.testing.assert_allclose(grown.mean(y), whole.mean(y), atol=2e-3)
    np.testing.assert_allclose(grown.variance, whole.variance, atol=2e-3)


def test_a_posterior_outgrows_its_first_room(points):
    x, _, rng = points
    process = GaussianProcess(3)
    posterior = Posterior(process, x[:2], x[2:])
    posterior.append(rng.random((150, 3)))
    assert len(posterior) == 152
    assert posterior.mean(np.zeros(152)).shape == (38,)


def test_repeated_points_do_not_break_it(points):
    x, y, rng = points
    process = GaussianProcess(3)
    doubled, values = np.concatenate([x, x]), np.concatenate([y, y])
    process.fit(doubled, values, rng)
    posterior = Posterior(process, doubled, x)
    posterior.append(x)
    assert np.isfinite(posterior.mean(np.concatenate([values, y]))).all()


def test_a_covariance_rounded_below_zero_gets_as_much_noise_as_it_takes():
    covariance = np.full((30, 30), 1.0) - 1e-3 * np.diag(np.arange(30.0))
    assert np.linalg.eigvalsh(covariance + 1e-4 * np.eye(30)).min() < 0
    lower = factor(covariance.copy(), 1e-4)
    assert np.isfinite(lower).all()
    np.testing.assert_allclose(lower @ lower.T, covariance, atol=0.2)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_feature_that_is_no_finite_number_is_refused(points, wrong):
    x, y, rng = points
    process = GaussianProcess(3)
    process.fit(x, y, rng)
    x[7, 1] = wrong
    with pytest.raises(ValueError, match="finite"):
        Posterior(process, x[:30], x[30:])
    with pytest.raises(ValueError, match="finite"):
        process.fit(x, y, rng)


STACK_OF_SIGNALLING_NANS = """
#include <stdint.h>
void fill(void) {
  volatile uint32_t stack[16384];
  for (int i = 0; i < 16384; i++) stack[i] = 0x7fa00000;
}
"""


def test_what_lies_on_the_stack_is_no_wrong_number(tmp_path):
    source, library = tmp_path / "fill.c", tmp_path / "fill.so"
    source.write_text(STACK_OF_SIGNALLING_NANS)
    subprocess.run(["cc", "-O0", "-shared", "-fPIC", source, "-o", library], check=True)
    fill = ctypes.CDLL(str(library)).fill
    rng = np.random.default_rng(0)
    for rows in range(1, 9):
        a, b = rng.random((1, 5), np.float32), rng.random((rows, 5), np.float32)
        fill()
        found = finite_product(a, b.T)
        np.testing.assert_allclose(found, a.astype(np.float64) @ b.T, rtol=1e-5)
