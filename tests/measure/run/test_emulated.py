"""CUDA kernels without a device: the emulator runs, verifies and blames them like any other."""

import math
import re

import numpy as np
import pytest

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureInput,
    Pipeline,
    Session,
    measure_option,
)

SOURCE = """
extern "C" __global__ void twice(const float *x, float *y) {
  __shared__ float s[64];
  int t = threadIdx.x, i = blockIdx.x * 64 + t;
  s[63 - t] = x[i];
  __syncthreads();
  y[i] = 2.0f * s[63 - t] + OFFSET;
}
"""


@at.template("measure_test.emulated")
def emulated():
    cfg = at.get_config()
    cfg.define_knob("offset", [0, 1])
    cfg.define_knob("threads", [64, 4096])
    return SourceKernel(
        "twice",
        SOURCE,
        defines={"OFFSET": cfg["offset"].val},
        grid=16,
        block=cfg["threads"].val,
        args=[arg("x", (1024,)), arg("y", (1024,), role="out")],
        reference=lambda x: 2 * x,
    )


# What threads of the last block do, by kind, and what is reported of them; `@` marks the line.
ENDLESS = {
    "spins_on_a_flag": (
        "if (t == 3) while (*(volatile int *)&flag == 0) y[0] = 1;  // @",
        "threads 0 to 2 exited; thread 3 runs at .*{line}.*; threads 4 to 39 exited",
    ),
    "spins_on_what_stays": (
        "if (t == 39) while (flag == 0) {}  // @",
        "threads 0 to 38 exited; thread 39 runs at .*{line}",
    ),
    "does_nothing": (
        "if (t >= 32) while (1) {}  // @",
        "warp 0 exited; warp 1 runs at .*{line}",
    ),
    "waits_for_a_spinner": (
        "if (t == 39) while (flag == 0) {}  // @\n  __syncthreads();",
        "threads 0 to 38 wait at __syncthreads in line 7; thread 39 runs at .*{line}",
    ),
}
STUCK = """extern "C" __global__ void stuck(float *y) {
  __shared__ int flag;
  const int t = threadIdx.x;
  if (t == 0) flag = blockIdx.x < 2;
  __syncthreads();
  %s
}
"""


def stuck(body):
    args = [arg("y", (1,), role="out")]
    return SourceKernel("stuck", STUCK % body, grid=3, block=40, args=args)


@at.template("measure_test.endless")
def endless(kind):
    return stuck(ENDLESS[kind][0])


@at.template("measure_test.divergent")
def divergent():
    return stuck("if (t < 32) __syncthreads();\n  else __syncthreads();")


@at.template("measure_test.slow")
def slow():
    return SourceKernel(
        "slow",
        """extern "C" __global__ void slow(volatile float *y) {
             for (int i = 0; i < 1 << 20; ++i) y[0] = i; }""",
        grid=1,
        block=1,
        args=[arg("y", (1,), role="out")],
        reference=lambda: np.full(1, (1 << 20) - 1, "float32"),
    )


def measured(task, indices, timeout, **timing):
    runner = LocalRunner(timeout=timeout, cooldown_interval=0, verify="all", **timing)
    option = measure_option(LocalBuilder(timeout=60), runner)
    with Pipeline(task, option) as pipeline:
        configs = [task.config_space.get(i) for i in indices]
        pipeline.submit([MeasureInput(task.target, task, config) for config in configs])
        results = []
        while pipeline.outstanding:
            results += [result for _, result in pipeline.next_results()]
    return results


def test_an_emulated_kernel_is_measured_like_any_other():
    task = at.create("measure_test.emulated", (), target="cuda -arch=sm_90 -emulate")
    right, wrong, refused = measured(task, range(3), 30)
    assert right.ok, right
    assert right.extra["verified"]
    assert wrong.error_no == 5
    assert wrong.error_msg.startswith("y: 1024 of 1024 elements differ")
    assert refused.error_no == 1
    assert "threads per block is 4096" in refused.error_msg


def test_an_emulated_kernel_is_timed_by_one_run():
    task = at.create("measure_test.slow", (), target="cuda -emulate")
    (result,) = measured(task, [0], 30, number=7, repeat=5, min_repeat_ms=10_000)
    assert result.ok, result
    assert result.extra["verified"]
    assert (result.extra["number"], result.extra["samples"]) == (1, 1)


@pytest.mark.many_cases
@pytest.mark.parametrize("kind", ENDLESS)
def test_a_trial_of_a_kernel_that_never_ends_says_in_which_lines_threads_are(kind):
    body, expected = ENDLESS[kind]
    task = at.create("measure_test.endless", (kind,), target="cuda -emulate")
    (result,) = measured(task, [0], 1)
    assert result.error_no == 7
    line = 1 + next(i for i, text in enumerate((STUCK % body).splitlines()) if "// @" in text)
    block = 0 if kind == "does_nothing" else 2
    assert re.search(
        r"ran longer than 1 s and was stopped: kernel 'stuck': \d+ of 120 threads have exited, "
        rf"and none in the last \d\.\d s of processor time: block \({block},0,0\): .*"
        rf"{expected.format(line=rf'stuck.cu:{line}')}",
        result.error_msg,
    ), result.error_msg
    assert "the emulator runs each thread on the CPU: take smaller shapes" in result.error_msg


def test_the_process_of_a_device_outlives_trials_that_never_end():
    runner = LocalRunner(timeout=1, cooldown_interval=0)
    task = at.create("measure_test.endless", ("does_nothing",), target="cuda -emulate")
    config = task.config_space.get(0)
    with Session(LocalBuilder(timeout=60), runner) as session:
        results, pids = session.measure(task, [config]), runner.pids
        results += session.measure(task, [config])
        assert [one.error_no for one in results] == [7, 7]
        assert pids == runner.pids


def test_a_deadlocked_barrier_is_an_error_at_once():
    task = at.create("measure_test.divergent", (), target="cuda -emulate")
    (result,) = measured(task, [0], 60)
    assert result.error_no == 4
    assert "divergent __syncthreads in block (0,0,0): thread (0,0,0) waits in line 6" in (
        result.error_msg
    )


def test_a_kernel_may_be_slow_until_its_time_is_over():
    task = at.create("measure_test.slow", (), target="cuda -emulate")
    (result,) = measured(task, [0], math.inf)
    assert result.ok, result
