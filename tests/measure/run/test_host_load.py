"""What is said of a busy host, and under which binding kernels on the CPU are timed."""

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autotune
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput, Pipeline, measure_option
from autotune.measure.run.host_load import (
    HostMeter,
    HostUse,
    HostWatch,
    core_times,
    disturbances,
    is_quantised,
    let_threads_rest,
)
from autotune.measure.run.race_rounds import race_rounds
from autotune.runtime import Clocks, summarize
from autotune.utils.environment import processors
from tests.busy import linux, shared_core
from tests.trials import inputs_of

STAT = """cpu  300 0 100 1000 0 10 10 40 0 0
cpu0 100 10 50 500 0 5 5 15 0 0
cpu1 200 0 50 500 0 5 5 25 0 0
cpu10 900 900 900 0 0 0 0 900 0 0
intr 12345
ctxt 1
"""


def test_only_the_cores_that_may_be_used_count():
    tick = 1 / os.sysconf("SC_CLK_TCK")
    assert core_times(STAT, [1]) == pytest.approx((260 * tick, 25 * tick))
    assert core_times(STAT, [0, 1]) == pytest.approx((430 * tick, 40 * tick))
    assert core_times("", [0]) == (0, 0)
    assert core_times("cpu0\n\ncpu0 1 2\n", [0]) == (0, 0)


def test_an_idle_host_is_not_spoken_of():
    assert disturbances(HostUse(wall_s=10, cores=2, own_s=18, busy_s=18.5, waited_s=0.2)) == []


def test_too_short_a_time_says_nothing():
    assert disturbances(HostUse(wall_s=0.1, cores=2, own_s=0.1, busy_s=0.2)) == []


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (HostUse(10, 2, 10, 19), "other processes used 0.9 of 2 cores"),
        (HostUse(10, 2, 10, 10, stolen_s=1), "the hypervisor took 5% of the cores' time"),
        (HostUse(10, 2, 6, 6, waited_s=2), "timed threads waited 25% of their time for a core"),
    ],
)
def test_each_disturbance_is_named(use, words):
    assert disturbances(use) == [words]
    meter = HostMeter()
    meter.add(use, [])
    assert words in meter.note
    assert meter.note.startswith("the host is busy: ")


@given(st.sampled_from([1e-3, 4e-3, 10e-3]), st.integers(0, 2**32 - 1))
def test_delays_by_whole_slices_are_seen(slice_s, seed):
    rng = np.random.default_rng(seed)
    whole = rng.integers(1, 5, 40) + rng.uniform(-0.05, 0.05, 40)
    assert is_quantised([0.0] * 10 + (whole * slice_s).tolist())


@given(st.integers(0, 2**32 - 1))
def test_delays_of_any_length_are_not(seed):
    rng = np.random.default_rng(seed)
    assert not is_quantised(rng.uniform(2e-3, 60e-3, 400).tolist())


def test_few_or_no_delays_are_not():
    assert not is_quantised([])
    assert not is_quantised([4e-3] * 15)
    assert not is_quantised([1e-5] * 1000)


def test_samples_of_many_runs_are_late_as_a_whole():
    meter = HostMeter()
    meter.add(HostUse(1, 2, 1, 1), [summarize([1e-3 + k * 4e-4 for k in range(20)], 10)])
    assert "whole time slices" in meter.note


def test_what_was_corrected_is_said_of_a_busy_host():
    meter, use = HostMeter(), HostUse(10, 2, 10, 19)
    lost = [Clocks(preempted=True, cpu_time=True), None]
    meter.add(use, [summarize([1e-3, 1e-3], 10, lost)])
    assert "lost its core (1 sample), CPU time counts. Times are less certain" in meter.note
    meter.add(use, [summarize([1e-3], 10, [Clocks(preempted=True)])])
    assert "(1 sample), CPU time counts. Times are longer and less certain" in meter.note


def test_the_watch_sees_its_own_work_and_that_of_others():
    hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        with HostWatch() as watch:
            end = time.monotonic() + 0.6
            while time.monotonic() < end:
                pass
    finally:
        hog.kill()
        hog.wait()
    use = watch.use
    assert use.wall_s >= 0.6
    assert use.cores == processors()
    assert 0 < use.own_s <= use.wall_s * 1.1
    if os.path.exists("/proc/stat"):
        assert use.busy_s > use.own_s


class Work:
    """A sampler of what takes its thread 0.2 ms, by the wall clock."""

    input_sets, alone = 1, False

    def sample(self, number):
        started, end = time.perf_counter(), time.thread_time() + number * 2e-4
        while time.thread_time() < end:
            pass
        return time.perf_counter() - started

    def clocks(self):
        return None


@linux
def test_a_race_beside_another_program_on_the_same_core_tells_what_an_idle_core_would_take():
    with shared_core(), HostWatch() as watch:
        [timing] = race_rounds([Work()], 12, 20e-3, seed=0, is_busy=watch.is_waiting)
    assert watch.use.waited > 0.1
    assert timing.dropped > len(timing.samples_s)
    assert timing.median < 3e-4


def test_what_does_not_run_on_the_host_is_not_watched():
    with HostWatch(False) as watch:
        pass
    assert watch.use == HostUse()


SPIN = "void spin(const volatile int *over) { while (!*over) {} }"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")
def test_threads_that_go_on_are_waited_for(tmp_path):
    library, over, stop = tmp_path / "spin.so", ctypes.c_int(0), threading.Event()
    compiler = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library]
    subprocess.run(compiler, input=SPIN, text=True, check=True)

    def spin():
        ctypes.CDLL(str(library)).spin(ctypes.byref(over))  # holds no lock of Python's

    def end_it():
        over.value = 1

    threads = [threading.Thread(target=spin), threading.Thread(target=stop.wait)]
    for thread in threads:
        thread.start()
    assert not let_threads_rest(most_s=0.1)
    timer = threading.Timer(0.1, end_it)
    timer.start()
    assert let_threads_rest(most_s=60)
    assert over.value
    stop.set()
    for thread in (timer, *threads):
        thread.join()


MASK = """
#define _GNU_SOURCE
#include <sched.h>
#include <omp.h>
void mask(const float *x, float *y) {
  #pragma omp parallel for schedule(static, 1) num_threads(2)
  for (int i = 0; i < 2; i++) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    y[i] = (float)CPU_COUNT(&set) + 0 * x[i];
  }
}
"""


@autotune.template("tests/host/mask")
def mask(cores):
    cfg = autotune.get_config()
    cfg.define_knob("k", [0])
    return autotune.SourceKernel(
        "mask",
        MASK,
        args=[autotune.arg("x", (2,)), autotune.arg("y", (2,), role="out")],
        reference=lambda x: np.full(2, cores, np.float32),
        flags=["-fopenmp"],
    )


def measured(cores):
    task = autotune.create("tests/host/mask", (cores,), "llvm")
    option = measure_option(LocalBuilder(), LocalRunner(verify="all"))
    with Pipeline(task, option) as pipeline:
        pipeline.submit(inputs_of(task, [0]))
        ((_, result),) = pipeline.next_results()
    return result


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's affinity")
@pytest.mark.skipif(processors() < 2, reason="needs two cores")
def test_threads_are_bound_in_a_trial_as_they_are_in_a_program(monkeypatch):
    monkeypatch.delenv("OMP_PROC_BIND", raising=False)
    # The kernel writes over how many cores each of its threads may run on.
    assert measured(processors()).error_msg == ""
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    monkeypatch.setenv("OMP_PLACES", "cores")
    assert measured(1).error_msg == ""


SUMS = """
void sums(const float *x, float *y) {
  for (int i = 0; i < 256; ++i) {
    float sum = x[i];
    for (int k = 0; k < 20000; ++k) sum = sum * 0.5f + 1.0f;
    y[i] = sum;
  }
}
"""


@autotune.template("tests/host/sums")
def sums():
    cfg = autotune.get_config()
    cfg.define_knob("k", [0])
    args = [autotune.arg("x", (256,)), autotune.arg("y", (256,), role="out")]
    return autotune.SourceKernel("sums", SUMS, args=args)


@linux
def test_a_trial_of_one_thread_on_a_shared_core_is_recorded_with_its_clock():
    task = autotune.create("tests/host/sums", (), "llvm")
    inp = MeasureInput(task.target, task, task.config_space.get(0))
    with shared_core():
        runner = LocalRunner(min_repeat_ms=60, verify=False, exclusive=False)
        with Pipeline(task, measure_option(LocalBuilder(), runner)) as pipeline:
            pipeline.submit([inp])
            ((_, result),) = pipeline.next_results()
    assert result.error_msg == ""
    assert result.extra["clock"] == "cpu"
    assert result.extra["preempted"] == result.extra["samples"] == 3
    assert "dropped" not in result.extra
