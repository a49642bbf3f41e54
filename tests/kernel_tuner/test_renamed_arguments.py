"""Arguments of other versions of Kernel Tuner."""

import numpy as np
import pytest

from autotune.errors import AutotuneError
from autotune.kernel_tuner import run_kernel, tune_kernel
from autotune.target import Target

FILL = """
__global__ void fill(float *out, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) out[i] = 1;
}
"""
ARGUMENTS = [np.zeros(64, "float32"), np.int32(64)]


def tune(params, **options):
    with Target("cuda -emulate"):
        return tune_kernel(
            "fill", problem_size=64, arguments=ARGUMENTS, tune_params=params, quiet=True, **options
        )


def test_a_sample_of_the_space_may_be_asked_for_as_a_fraction():
    params = {"block_size_x": [1, 2, 4, 8, 16, 32, 64, 128]}
    options = {"use_noodles": False, "num_threads": 2, "method": "COBYLA", "times": True}
    results, _ = tune(params, kernel_string=FILL, sample_fraction=0.25, **options)
    assert len(results) == 2
    assert all(each["compile_time"] > 0 for each in results)


def test_a_source_may_be_called_a_string():
    with Target("cuda -emulate"):
        found = run_kernel(
            "fill", kernel_string=FILL, problem_size=64, arguments=ARGUMENTS,
            params={"block_size_x": 32},
        )  # fmt: skip
    assert found[0].sum() == 64


def test_an_argument_that_no_version_has_is_named():
    with pytest.raises(AutotuneError, match="no argument 'restriction'; did you mean 'restrict"):
        tune({"block_size_x": [32]}, kernel_source=FILL, restriction=["block_size_x > 1"])


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"block_size_x": 32}, "'block_size_x': expected a list of values, got 32"),
        ({"block_size_x": []}, "'block_size_x' has no values"),
        ([32, 64], "tune_params: expected a dict of lists"),
    ],
)
def test_parameters_that_are_no_lists_are_named(params, words):
    with pytest.raises(AutotuneError, match=words):
        tune(params, kernel_source=FILL)


def test_a_target_is_told_to_go_around_the_call():
    with pytest.raises(AutotuneError, match=r"no argument 'target'; write `with .*Target\("):
        tune({"block_size_x": [32]}, kernel_source=FILL, target="cuda -emulate")
