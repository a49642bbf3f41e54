"""CUDA kernels without a device: the emulator runs, verifies and blames them like any other."""

import numpy as np

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, Pipeline, measure_option

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


@at.template("measure_test.endless")
def endless():
    return SourceKernel(
        "endless",
        'extern "C" __global__ void endless(volatile float *y) { while (y[0] == y[0]) y[0] = 1; }',
        grid=1,
        block=1,
        args=[arg("y", (1,), role="out")],
    )


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


def test_an_emulated_kernel_that_takes_too_long_says_what_to_do():
    task = at.create("measure_test.endless", (), target="cuda -emulate")
    (result,) = measured(task, [0], 1)
    assert result.error_no == 7
    assert "the emulator runs each thread on the CPU: take smaller shapes" in result.error_msg
