"""How far a result may be from its reference: rounding passes, mistakes do not."""

import ml_dtypes
import numpy as np
import pytest

from autotune.kernel import arg
from autotune.measure.tolerance import Tolerance, mismatch, reduction_length, tolerance


def summed(dtype, terms, rng, step):
    """A matrix product accumulated in `dtype`, `step` terms at a time."""
    a = rng.uniform(-1, 1, (16, terms)).astype(dtype)
    b = rng.uniform(-1, 1, (terms, 16)).astype(dtype)
    total = np.zeros((16, 16), dtype)
    for k in range(0, terms, step):
        total += (a[:, k : k + step] @ b[k : k + step]).astype(dtype)
    return total, a.astype(np.float64) @ b.astype(np.float64), a, b


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
@pytest.mark.parametrize("terms", [1, 64, 1024])
def test_honest_rounding_passes(dtype, terms):
    got, expected, _, _ = summed(dtype, terms, np.random.default_rng(terms), 1)
    assert mismatch("y", got, expected, tolerance(np.dtype(dtype).name, terms)) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("terms", [2, 64, 1024])
def test_a_forgotten_term_does_not_pass(dtype, terms):
    got, expected, a, b = summed(dtype, terms, np.random.default_rng(terms), terms)
    wrong = got - np.outer(a[:, -1], b[-1]).astype(dtype)
    told = mismatch("y", wrong, expected, tolerance(np.dtype(dtype).name, terms))
    assert told.startswith("y: ")
    assert "of 256 elements differ from the reference, worst at [" in told


def test_integers_must_be_equal():
    expected = np.arange(12).reshape(3, 4)
    assert mismatch("y", expected, expected, tolerance("int32", 100)) is None
    off = expected.copy()
    off[1, 2] += 1
    told = mismatch("y", off, expected, tolerance("int32", 100))
    assert told.startswith("y: 1 of 12 elements differ from the reference, worst at [1, 2]: got 7")


def test_what_was_never_written_shows():
    expected = np.ones(8, np.float32)
    got = np.full(8, np.nan, np.float32)
    assert "8 of 8" in mismatch("y", got, expected, Tolerance(1e-3))


def test_nan_and_infinity_are_right_where_the_reference_has_them():
    values = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    assert mismatch("y", values, values, tolerance("float32", 1)) is None
    assert "1 of 4" in mismatch(
        "y", np.array([np.nan, np.inf, np.inf, 1.0]), values, tolerance("float32", 1)
    )


def test_a_wrong_shape_is_a_mismatch():
    assert "shape (2,)" in mismatch("y", np.ones(2), np.ones(3), Tolerance(1.0))


def test_cancelled_elements_carry_the_error_of_their_terms():
    expected = np.array([1.0, 1e-9, -1.0])
    got = expected + 1e-6
    assert mismatch("y", got, expected, Tolerance(1e-5)) is None


def test_a_single_number_is_compared_too():
    one = np.array(1.0, np.float32)
    assert mismatch("y", one, one, tolerance("float32", 1)) is None
    assert "1 of 1" in mismatch("y", one + 1, one, tolerance("float32", 1))


def test_reduction_length_is_guessed_from_the_operations():
    assert reduction_length(2 * 64**3, (arg("y", (64, 64), role="out"),)) == 64
    assert reduction_length(None, (arg("y", (64, 64), role="out"),)) == 1
    assert reduction_length(10, (arg("y", (64, 64), role="out"),)) == 1
