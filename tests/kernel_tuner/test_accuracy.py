"""Kernel Tuner's `accuracy`: precision as a parameter, and the errors that it brings."""

import numpy as np
import pytest

from autotune.errors import AutotuneError, KernelError, TunerError
from autotune.kernel_tuner import run_kernel, tune_kernel
from autotune.kernel_tuner.accuracy import (
    AccuracyObserver,
    TunablePrecision,
    error_metric_from_name,
)

SUM = """
void add(int n, const float_type *left, const float_type *right, float_type *out) {
  for (int i = 0; i < n; ++i) out[i] = left[i] + right[i];
}
"""
LEFT, RIGHT = np.random.default_rng(0).random((2, 40))
VALUES = {"float_type": ["float", "double"]}


def arguments():
    zeros = np.zeros_like(LEFT)
    return [np.int32(40), *[TunablePrecision("float_type", a) for a in (LEFT, RIGHT, zeros)]]


def test_errors_of_each_precision_are_in_the_results_and_refuse_none():
    answer = [None, None, None, LEFT + RIGHT]
    observers = [
        AccuracyObserver("RMSE", "rmse"),
        AccuracyObserver(lambda a, b: np.max(np.abs(a - b)), "worst"),
    ]
    results, about = tune_kernel(
        "add", SUM, 1, arguments(), VALUES, answer=answer, observers=observers, atol=0.0,
        iterations=1, quiet=True,
    )  # fmt: skip
    assert not about["failed"]
    found = {each["float_type"]: each for each in results}
    single = LEFT.astype("float32") + RIGHT.astype("float32") - (LEFT + RIGHT)
    assert found["double"]["rmse"] == found["double"]["worst"] == 0
    np.testing.assert_allclose(found["float"]["rmse"], np.sqrt(np.mean(single**2)), rtol=1e-6)
    np.testing.assert_allclose(found["float"]["worst"], np.max(np.abs(single)), rtol=1e-6)


def test_an_output_that_is_not_a_number_is_an_error_that_is_none():
    observer = AccuracyObserver("max")
    observer.process_output([LEFT, RIGHT], [LEFT, RIGHT * np.nan])
    assert np.isnan(observer.get_results()["error"])


def test_without_an_observer_results_are_compared_in_each_precision():
    answer = [None, None, None, LEFT + RIGHT]
    results, about = tune_kernel(
        "add", SUM, 1, arguments(), VALUES, answer=answer, atol=1e-6, iterations=1, quiet=True
    )
    assert len(results) == 2
    wrong = [None, None, None, LEFT]
    results, about = tune_kernel(
        "add", SUM, 1, arguments(), VALUES, answer=wrong, iterations=1, quiet=True
    )
    assert not results
    assert all("elements differ from the answer" in each["error"] for each in about["failed"])


@pytest.mark.parametrize(("name", "dtype"), [("float", "float32"), ("double", "float64")])
def test_a_run_gives_arrays_of_the_chosen_precision(name, dtype):
    found = run_kernel("add", SUM, 1, arguments(), {"float_type": name})
    assert found[3].dtype == dtype
    np.testing.assert_allclose(found[3], LEFT + RIGHT, rtol=1e-6)


def test_errors_are_named_as_in_kernel_tuner():
    right, found = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.5, 3.0], "float32")
    expected = {
        "MSE": 1.25 / 3, "rmse": np.sqrt(1.25 / 3), "NRMSE": np.sqrt(1.25 / 3) * 3 / 7,
        "mean absolute error": 0.5, "MRE": 0.5 / 3, "max": 1.0, "max_rel": 0.25,
        "MALE": (np.log(1.25) + np.log(4 / 3)) / 3,
        "RMSLE": np.sqrt((np.log(1.25) ** 2 + np.log(4 / 3) ** 2) / 3),
    }  # fmt: skip
    for name, value in expected.items():
        np.testing.assert_allclose(error_metric_from_name(name)(right, found), value, rtol=1e-9)


def test_what_cannot_be_chosen_or_compared_is_refused():
    with pytest.raises(TunerError, match=r"error metric: expected one of .*, got 'best'"):
        AccuracyObserver("best")
    with pytest.raises(KernelError, match="expected numbers of numpy, got 'text'"):
        TunablePrecision("float_type", LEFT, {"text": "text"})
    for wrong in ({"float": None}, "float"):
        with pytest.raises(KernelError, match="TunablePrecision: expected"):
            TunablePrecision("float_type", LEFT, wrong)
    for wrong in (1.5, "text", 1j * LEFT):
        with pytest.raises(KernelError, match=r"such as numpy.float64\(x\), got"):
            TunablePrecision("float_type", wrong)
    with pytest.raises(
        KernelError, match="'float_type' to be one of half, float, double, got 'x'"
    ):
        run_kernel("add", SUM, 1, arguments(), {"float_type": "x"})
    for metric, right, message in (
        (None, LEFT[:3], r"AccuracyObserver: answer\[0\] must be 40 numbers"),
        (lambda a, b: a - b, LEFT, "AccuracyObserver: metric must return a number"),
    ):
        with pytest.raises(TunerError, match=message):
            AccuracyObserver(metric).process_output([right], [LEFT])
    with pytest.raises(AutotuneError, match="AccuracyObserver: tune_kernel needs answer="):
        tune_kernel(
            "add", SUM, 1, arguments(), VALUES, observers=[AccuracyObserver()], iterations=1,
            quiet=True,
        )  # fmt: skip


def test_a_number_of_double_precision_is_a_number_of_numpy():
    assert TunablePrecision("T", np.float64(3.0)).select({"T": "half"}) == np.float16(3)
    with pytest.raises(KernelError, match="a number of numpy"):
        TunablePrecision("T", 3.0)
