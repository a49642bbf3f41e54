"""Kernels of Kernel Tuner as functions, and its strategies as attributes."""

import numpy as np
import pytest

from autotune import kernel_tuner
from autotune.errors import TunerError
from autotune.kernel_tuner.integration import store_results
from autotune.kernel_tuner.kernelbuilder import PythonKernel
from autotune.target import Target
from tests.kernel_tuner.test_interface import SCALE, SIZE


@pytest.fixture
def scale():
    x = np.arange(SIZE, dtype="float32")
    arguments = [np.zeros_like(x), x, np.float32(2.0), np.int32(SIZE)]
    params = {"block_size_x": 64, "OFFSET": 1}
    with Target("cuda -emulate"):
        return PythonKernel(
            "scale", SCALE, SIZE, arguments, params, outputs=[True, False, False, False]
        )


def test_a_kernel_is_a_function_of_later_arguments(scale):
    x = np.ones(SIZE, "float32")
    out = np.zeros_like(x)
    (found,) = scale(out, x, np.float32(3.0), np.int32(SIZE))
    np.testing.assert_array_equal(found, 4)
    np.testing.assert_array_equal(out, 0)
    for given in ([out, x, np.float32(5.0), np.int32(SIZE)],), (out, x, np.float32(5.0), 1000):
        (again,) = scale.run_kernel(*given)
        np.testing.assert_array_equal(again, 6)


def test_other_numbers_of_arguments_are_refused(scale):
    with pytest.raises(TunerError, match="expected 4 arguments, got 1"):
        scale(np.zeros(SIZE, "float32"))
    with pytest.raises(TunerError, match="outputs: expected a list with True or False"):
        PythonKernel("scale", SCALE, SIZE, [np.int32(1)], {}, outputs=[])


def test_a_kernel_takes_the_best_parameters_of_a_file(tmp_path):
    best = {"block_size_x": 64, "OFFSET": 3, "time": 1.0}
    tuned = ["block_size_x", "OFFSET"]
    store_results(tmp_path / "b.json", "scale", SCALE, tuned, SIZE, [best], {"device_name": "x"})
    x = np.arange(SIZE, dtype="float32")
    arguments = [np.zeros_like(x), x, np.float32(2.0), np.int32(SIZE)]
    with Target("cuda -emulate"):
        kernel = PythonKernel(
            "scale", problem_size=SIZE, arguments=arguments, kernel_string=SCALE,
            results_file=tmp_path / "b.json",
        )  # fmt: skip
    assert kernel.params == {"block_size_x": 64, "OFFSET": 3}
    np.testing.assert_array_equal(kernel(*arguments)[0], 2 * x + 3)


def test_a_strategy_is_named_by_an_attribute():
    assert kernel_tuner.strategies.minimize == "minimize"
    with pytest.raises(AttributeError, match="there is no 'minimise'; did you mean 'minimize'"):
        _ = kernel_tuner.strategies.minimise
