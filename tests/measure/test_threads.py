"""Threads of a kernel on the CPU: each has a core of its own while it is timed."""

import json
import subprocess
import sys
import textwrap

import pytest

from autotune.measure.base import usable_cores

# `start(n)` starts threads that wait, `masks()` says where all may run.
SCRIPT = """
    import json, os, threading, time
    {before}
    from autotune.measure.threads import Cores, Spread
    stops = []
    def start(n):
        for _ in range(n):
            stops.append(threading.Event())
            threading.Thread(target=stops[-1].wait, daemon=True).start()
    def end():
        stops.pop().set()
        time.sleep(0.1)
    def masks():
        tasks = sorted(int(name) for name in os.listdir("/proc/self/task"))
        return [sorted(os.sched_getaffinity(task)) for task in tasks]
    cores = Cores()
    {what}
    os._exit(0)
"""


def told(what, before=""):
    """Run statements in a process of their own and return what they print."""
    text = textwrap.dedent(SCRIPT).format(before=before, what="\n".join(what))
    environment = {"OPENBLAS_NUM_THREADS": "1", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout)


PRINT = "print(json.dumps(masks()), flush=True)"
two_cores = pytest.mark.skipif(usable_cores() < 2, reason="needs two cores")


@two_cores
def test_each_thread_gets_a_core_of_its_own():
    first, second = told(["start(1)", "cores.spread()", PRINT])
    assert len(first) == len(second) == 1
    assert first != second


@two_cores
def test_a_thread_that_starts_later_gets_a_core_of_its_own_too():
    # It begins where the one that starts it is bound.
    later = ["start(1)", "cores.spread()", "end()", "start(1)", "cores.spread()", PRINT]
    first, second = told(later)
    assert len(first) == len(second) == 1
    assert first != second


def test_a_single_thread_stays_free():
    assert len(told(["cores.spread()", PRINT])[0]) == usable_cores()


@two_cores
def test_a_thread_left_alone_is_free_again():
    assert len(told(["start(1)", "cores.spread()", "end()", "cores.spread()", PRINT])[0]) > 1


def test_more_threads_than_cores_are_free():
    start = f"start({usable_cores()})"
    assert all(len(mask) == usable_cores() for mask in told([start, "cores.spread()", PRINT]))


@two_cores
def test_threads_that_become_more_than_the_cores_are_free_again():
    more = ["start(1)", "cores.spread()", f"start({usable_cores()})", "cores.spread()", PRINT]
    assert all(len(mask) == usable_cores() for mask in told(more))


@two_cores
def test_what_the_user_binds_stays_as_it_is():
    before = 'os.environ["OMP_PROC_BIND"] = "close"'
    masks = told(["start(1)", "cores.spread()", PRINT], before)
    assert all(len(mask) == usable_cores() for mask in masks)


SAMPLER = """
class Sampler:
    input_sets, taken = 1, 0
    def sample(self, number):
        self.taken += 1
        if self.taken in {starts}: start(1)
        return {seconds}
sampler = Sampler()
both = [Spread(sampler, cores), Spread(sampler, cores)]
"""


@pytest.mark.parametrize(
    ("starts", "seconds", "takes"),
    [
        ([], 0.01, [1, 2, 3]),  # no threads: nothing is taken twice
        ([1], 0.01, [2, 3, 4]),
        ([2], 0.01, [1, 3, 4]),  # a thread that starts late, in the other sampler
        (range(100), 0.01, [3, 6, 9]),
        ([1], 1.0, [1, 2, 3]),
    ],
)
def test_a_sample_in_which_threads_started_is_taken_again(starts, seconds, takes):
    turn = "counts = [(both[i % 2].sample(1), sampler.taken)[1] for i in range(3)]"
    what = [SAMPLER.format(starts=starts, seconds=seconds), turn, "print(json.dumps(counts))"]
    assert told([*what, "import sys; sys.stdout.flush()"]) == takes
