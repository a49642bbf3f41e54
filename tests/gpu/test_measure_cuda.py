"""Measuring on a device: every fault costs its one trial, and times can be believed."""

import os
import signal
import time

import pytest

import autotune.task as at
from autotune.kernel import SourceKernel, arg, workspace
from autotune.measure import LocalBuilder, LocalRunner, Pipeline, measure_option
from autotune.measure.final.race import race
from autotune.target import Target, device_class
from autotune.target.query import cuda_device_count
from tests.trials import inputs_of, measured

pytestmark = pytest.mark.gpu

SOURCE = """
extern "C" __global__ void faulty(const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef FAULT_compile
  this is not C++;
#endif
#ifdef FAULT_misaligned
  y[i] = *(const float *)((const char *)x + 1);
  return;
#endif
#ifdef FAULT_registers
  float r[REGISTERS];
#pragma unroll
  for (int j = 0; j < REGISTERS; j++) r[j] = x[(i + j * 7) % N];
#pragma unroll 1
  for (int k = 0; k < 3; k++) {
#pragma unroll
    for (int j = 0; j < REGISTERS; j++) r[j] = r[j] * r[(j + 1) % REGISTERS] + 1.0f;
    __syncthreads();
  }
  float s = 0;
#pragma unroll
  for (int j = 0; j < REGISTERS; j++) s += r[j];
  y[i] = s;
  return;
#endif
  y[i] = 2.0f * x[i] + KNOB * 0.0f;
#ifdef FAULT_wrong
  if (i == 17) y[i] += 1.0f;
#endif
#ifdef FAULT_unwritten
  y[i] = 0.0f / 0.0f;
#endif
#ifdef FAULT_illegal
  *(volatile float *)(size_t)(16 + i) = 1.0f;
#endif
#ifdef FAULT_far
  ((volatile float *)y)[(size_t)1 << 40] = 1.0f;
#endif
#ifdef FAULT_loop
  for (volatile int j = 0;; j++) {}
#endif
#ifdef FAULT_trap
  __trap();
#endif
#ifdef FAULT_prints
  printf("thread %d\\n", i);
#endif
}
"""
N = 4096
FAULTS = {
    "none": (0, ""),
    "compile": (3, "error"),
    "refused": (1, "refused by its template"),
    "threads": (1, "threads per block"),
    "missing_entry": (3, "missing"),
    "registers": (4, "registers"),
    "wrong": (5, "y: 1 of 4096 elements differ"),
    "unwritten": (5, "y: 4096 of 4096 elements differ"),
    "illegal": (4, ""),
    "far": (4, ""),
    "misaligned": (4, ""),
    "loop": (7, "ran longer than"),
    "trap": (4, ""),
    "memory": (4, "memory"),
    "prints": (0, ""),
}


@at.template("measure_test.faulty_cuda")
def faulty(faults):
    cfg = at.get_config()
    cfg.define_knob("fault", list(faults))
    cfg.define_knob("knob", [0, 1, 2])
    cfg.add_flop(N)
    fault = cfg["fault"].val
    if fault == "refused":
        cfg.raise_error("this configuration is refused by its template")
    threads = {"threads": 2048, "registers": 1024}.get(fault, 128)
    return SourceKernel(
        "missing" if fault == "missing_entry" else "faulty",
        SOURCE,
        defines={
            "N": N,
            "KNOB": cfg["knob"].val,
            f"FAULT_{fault}": 1,
            "REGISTERS": 160 + cfg["knob"].val,
        },
        grid=max(1, N // threads),
        block=threads,
        args=[arg("x", (N,)), arg("y", (N,), role="out")],
        workspace=[workspace("huge", (1 << 38,))] if fault == "memory" else [],
        reference=lambda x: 2 * x,
    )


@pytest.fixture(params=["nvcc", "nvrtc"])
def option(request):
    builder = LocalBuilder(timeout=60, compiler=request.param)
    # A trap beside programs that keep the device busy was told after 4 to 5 s.
    runner = LocalRunner(timeout=6, number=1, cooldown_interval=0, verify="all")
    yield measure_option(builder, runner)
    runner.close()
    builder.close()


@pytest.mark.parametrize("order", ["forwards", "backwards"])
def test_every_fault_of_a_device_is_called_by_its_name(option, order):
    names = list(FAULTS)
    task = at.create("measure_test.faulty_cuda", (names,), target="cuda")
    indices = range(2 * len(names))
    results = measured(task, option, indices if order == "forwards" else reversed(indices))
    assert len(results) == 2 * len(names)
    for index, result in results.items():
        number, words = FAULTS[names[index % len(names)]]
        told = f"{names[index % len(names)]}: {result}"
        assert result.error_no == number, told
        assert words in result.error_msg, told
        assert bool(result.costs) == (result.error_no == 0), told


def test_a_runner_killed_between_trials_costs_nothing():
    # Three kernels of different machine code: equal code would not be run again.
    task = at.create("measure_test.stream_cuda", (1 << 20,), target="cuda")
    runner = LocalRunner(cooldown_interval=0)
    with Pipeline(task, measure_option(LocalBuilder(timeout=60), runner)) as pipeline:
        for index in range(3):
            pipeline.submit(inputs_of(task, [index]))
            assert pipeline.next_results()[0][1].ok
            os.kill(runner.pids[0], signal.SIGKILL)


STREAM = """
extern "C" __global__ void stream(const float *x, float *y) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x)
    for (int r = 0; r < REPEAT; r++) y[i] = 2.0f * ((volatile const float *)x)[i];
}
"""


@at.template("measure_test.stream_cuda")
def stream(n):
    cfg = at.get_config()
    cfg.define_knob("repeat", [1, 2, 16, 64])
    cfg.define_knob("threads", [128, 256, 512])
    cfg.add_flop(n)
    return SourceKernel(
        "stream",
        STREAM,
        defines={"N": n, "REPEAT": cfg["repeat"].val},
        grid=512,
        block=cfg["threads"].val,
        args=[arg("x", (n,)), arg("y", (n,), role="out")],
        reference=lambda x: 2 * x,
    )


@pytest.mark.alone
def test_times_are_plausible_and_come_with_their_proof():
    task = at.create("measure_test.stream_cuda", (1 << 24,), target="cuda")
    option = measure_option(LocalBuilder(timeout=60), LocalRunner(repeat=5, min_repeat_ms=5))
    results = measured(task, option, [4, 5, 6])
    times = [results[i].mean for i in (4, 5, 6)]
    assert times[0] < times[1] * 1.1
    assert times[0] < times[2] / 2
    # 128 MiB moved: no device does that in 5 us, and a slow one in 50 ms.
    assert 5e-6 < times[0] < 50e-3
    best = results[4].extra
    assert best["verified"]
    assert best["ci95"][0] <= results[4].seconds <= best["ci95"][1]
    assert best["resources"]["registers"] > 0
    assert best["device_class"] == device_class(Target("cuda"))
    assert best["clocks"]["sm_mhz"] > 0
    assert 0 < best["clocks"]["temperature_c"] < 120


@pytest.mark.alone
def test_a_race_on_the_device_chooses_the_fastest():
    task = at.create("measure_test.stream_cuda", (1 << 22,), target="cuda")
    inputs = inputs_of(task, (7, 4, 6))
    option = measure_option(LocalBuilder(timeout=60), LocalRunner())
    assert race(inputs, option, rounds=9).winner.config.index == 4
    option["runner"].close()
    option["builder"].close()


@pytest.mark.skipif(cuda_device_count() < 2, reason="needs two devices")
def test_two_devices_share_the_work_and_are_calibrated():
    task = at.create("measure_test.stream_cuda", (1 << 22,), target="cuda")
    runner = LocalRunner(devices=[0, 1], cooldown_interval=0, min_repeat_ms=20)
    option = measure_option(LocalBuilder(timeout=60), runner)
    started = time.perf_counter()
    results = measured(task, option, range(12))
    assert time.perf_counter() - started < 120
    assert all(r.ok for r in results.values())
    assert {r.extra["device"] for r in results.values()} == {0, 1}
    assert all(0.5 < r.extra["calibration"] < 2 for r in results.values())
    finalists = sorted(results, key=lambda index: results[index].mean)[:4]
    inputs = inputs_of(task, finalists)
    raced = race(inputs, option, rounds=9)
    assert all(len(timings) == 2 for timings in raced.timings)
    # Whoever wins is about as fast as anyone on each device.
    place = [c.key for c in raced.candidates].index(raced.winner.key)
    for device in (0, 1):
        medians = [timings[device].median for timings in raced.timings]
        assert medians[place] <= 1.1 * min(medians)
    runner.close()
    option["builder"].close()
