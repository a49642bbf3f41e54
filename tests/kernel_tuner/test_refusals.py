"""Configurations that cannot be launched are told in results, the cache and the summary."""

import json

import numpy as np
import pytest

from autotune.errors import DeviceError
from autotune.kernel_tuner import run_kernel, tune_kernel
from autotune.kernel_tuner.kernelbuilder import PythonKernel
from autotune.kernel_tuner.util import InvalidConfig
from autotune.target import Target

FILL = "__global__ void fill(float *x) { x[blockIdx.x * block_size_x + threadIdx.x] = 1; }"
X = np.zeros(4096, "float32")
REASON = "threads per block is 2048, the device allows 1024"


def tune(path, threads, capsys, **options):
    with Target("cuda -emulate"):
        results, env = tune_kernel(
            "fill", FILL, X.size, [X], {"block_size_x": threads}, iterations=1,
            cache=path, **options,
        )  # fmt: skip
    return results, env, capsys.readouterr().out


def test_blocks_of_too_many_threads_are_told_and_count_as_no_evaluation(tmp_path, capsys):
    path = tmp_path / "cache.json"
    options = {"strategy": "brute_force", "strategy_options": {"max_fevals": 2}}
    results, env, said = tune(path, [2048, 4096, 0, 64, 128], capsys, **options)
    assert sorted(each["block_size_x"] for each in results) == [64, 128]
    failed = {each["block_size_x"]: each for each in env["failed"]}
    assert {type(each["time"]) for each in failed.values()} == {InvalidConfig}
    assert REASON in failed[2048]["error"]
    assert "block_size_x: expected a divisor of at least 1, got 0" in failed[0]["error"]
    assert "3 configurations cannot be launched and did not count, such as: " in said
    assert "best of 2 by time" in said
    held = json.loads(path.read_text())["cache"]
    assert [held[name]["time"] for name in ("2048", "4096", "0")] == ["InvalidConfig"] * 3
    assert REASON in held["2048"]["error"]


def test_those_of_a_cache_are_told_again_and_take_no_evaluation(tmp_path, capsys):
    path = tmp_path / "cache.json"
    options = {"strategy": "brute_force"}
    tune(path, [2048, 4096, 64], capsys, **options, strategy_options={"max_fevals": 1})
    more = {**options, "strategy_options": {"max_fevals": 2}}
    held = json.loads(path.read_text())
    held["tune_params"]["block_size_x"].append(128)
    path.write_text(json.dumps(held))
    results, env, _ = tune(path, [2048, 4096, 64, 128], capsys, **more)
    assert sorted(each["block_size_x"] for each in results) == [64, 128]
    assert sorted(each["block_size_x"] for each in env["failed"]) == [2048, 4096]
    assert all("the device allows 1024" in each["error"] for each in env["failed"])


def test_a_kernel_runs_on_the_device_that_is_named():
    with Target("cuda -arch=sm_90"):
        with pytest.raises(DeviceError, match="cuda:97: there is no such device"):
            run_kernel("fill", FILL, X.size, [X], {"block_size_x": 64}, device=97)
        made = PythonKernel("fill", FILL, X.size, [X], {"block_size_x": 64}, device=97)
        with pytest.raises(DeviceError, match="cuda:97: there is no such device"):
            made(X)
