"""By which clock runs on the host are timed: one thread that lost its core counts CPU time."""

import threading
import time

import pytest

from autotune.kernel import SourceKernel, arg
from autotune.runtime import Clocks, TimeOptions, compile_kernel, cpu, load
from autotune.runtime.host.stopwatch import Reading, Stopwatch
from autotune.target import Target
from tests.busy import linux, shared_core


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


@pytest.mark.parametrize(
    ("reading", "seconds", "is_cpu_time", "is_preempted"),
    [
        (Reading(1.0, 1.001, 1.001), 1.0, False, False),
        (Reading(1.0, 0.4, 0.4, preemptions=9), 0.4, True, True),
        # What is missing is less than an interrupt takes.
        (Reading(1.0, 0.995, 0.995, preemptions=1), 1.0, False, False),
        # It waited by itself: that is its own time.
        (Reading(1.0, 0.4, 0.4, waits=1), 1.0, False, False),
        # Another thread did a part.
        (Reading(1.0, 0.9, 1.8), 1.0, False, False),
        (Reading(1.0, 0.9, 1.8, preemptions=2), 1.0, False, True),
        # Another thread of the process looked at its clock meanwhile.
        (Reading(1.0, 0.5, 0.504, preemptions=2), 0.504, True, True),
        (Reading(1.0, 0.5, 0.51, preemptions=2), 1.0, False, True),
        # A run of nanoseconds: its two CPU times are not read at the same moment.
        (Reading(1e-7, 6e-7, 1.3e-6, preemptions=1), 1e-7, False, False),
        (Reading(4e-3, 6e-7, 1.3e-6, preemptions=1), 1.3e-6, True, True),
        (Reading(4e-3, 3e-6, 6e-6, preemptions=1), 4e-3, False, True),
    ],
)
def test_cpu_time_counts_where_one_thread_lost_its_core(
    reading, seconds, is_cpu_time, is_preempted
):
    assert reading.seconds == seconds
    assert (reading.is_cpu_time, reading.is_preempted) == (is_cpu_time, is_preempted)


@linux
def test_a_call_that_lost_its_core_counts_its_cpu_time():
    watch = Stopwatch()
    with shared_core():
        started = time.perf_counter()
        watch.call([lambda: spin(0.1)])
        wall_s = time.perf_counter() - started
    assert 0.1 <= watch.seconds < 0.105 < wall_s
    assert watch.clocks == Clocks(preempted=True, cpu_time=True)
    watch.restart()
    assert (watch.seconds, watch.clocks) == (0, None)


def test_a_wait_of_its_own_counts():
    watch = Stopwatch()
    watch.call([lambda: time.sleep(0.02)])
    assert watch.seconds >= 0.02
    assert watch.clocks is None or not watch.clocks.cpu_time


def test_the_work_of_other_threads_counts_by_the_wall_clock():
    def both():
        other = threading.Thread(target=spin, args=(0.02,))
        other.start()
        other.join()

    watch = Stopwatch()
    started = time.perf_counter()
    watch.call([both])
    wall_s = time.perf_counter() - started
    assert 0.02 <= watch.seconds <= wall_s
    assert watch.clocks is None or not watch.clocks.cpu_time


SUMS = """
void sums(const float *x, float *y) {
#pragma omp parallel for num_threads(THREADS)
  for (int i = 0; i < N; ++i) {
    float sum = x[i];
    for (int k = 0; k < STEPS; ++k) sum = sum * 0.5f + 1.0f;
    y[i] = sum;
  }
}
"""


def timing_of(tmp_path, threads, steps):
    args = [arg("x", (256,)), arg("y", (256,), role="out")]
    defines = {"N": 256, "THREADS": threads, "STEPS": steps}
    kernel = SourceKernel("sums", SUMS, args, defines).kernel("c")
    output = compile_kernel(kernel, Target("c"), out_dir=tmp_path)
    options = TimeOptions(number=1, repeat=3, min_repeat_ms=60)
    with load(output.artifact, kernel, cpu()) as executable, shared_core():
        started = time.perf_counter()
        timing = executable.time(executable.allocate(), options)
        return timing, time.perf_counter() - started


@linux
def test_a_kernel_of_one_thread_is_as_fast_on_a_core_that_it_shares(tmp_path):
    timing, wall_s = timing_of(tmp_path, 1, 20_000)
    assert timing.cpu_time
    assert (timing.preempted, timing.dropped) == (3, 0)
    assert sum(timing.samples_s) * timing.number < 0.8 * wall_s


@linux
def test_preempted_samples_of_several_threads_are_taken_again_and_counted(tmp_path):
    # No scheduler leaves a core for as long as one run to a thread, while others want it.
    timing, _ = timing_of(tmp_path, 2, 100_000)
    assert not timing.cpu_time
    assert not timing.throttled
    assert timing.preempted == len(timing.samples_s) == 6
