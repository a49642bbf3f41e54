"""Threads of a kernel on the CPU: each has a core of its own while it is timed."""

import json
import subprocess
import sys
import textwrap

import pytest

from autotune.measure.base import usable_cores

SCRIPT = """
    import json, os, threading, time
    {before}
    from autotune.measure.threads import spread_threads
    for _ in range({threads} - 1):
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
    spread_threads()
    tasks = [int(name) for name in os.listdir("/proc/self/task")]
    print(json.dumps([sorted(os.sched_getaffinity(task)) for task in tasks]), flush=True)
    os._exit(0)
"""


def masks(threads, before=""):
    text = textwrap.dedent(SCRIPT).format(threads=threads, before=before)
    environment = {"OPENBLAS_NUM_THREADS": "1", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout)


@pytest.mark.skipif(usable_cores() < 2, reason="needs two cores")
def test_each_thread_gets_a_core_of_its_own():
    first, second = masks(2)
    assert len(first) == len(second) == 1
    assert first != second


def test_a_single_thread_stays_free():
    assert len(masks(1)[0]) == usable_cores()


def test_more_threads_than_cores_stay_free():
    assert all(len(mask) == usable_cores() for mask in masks(usable_cores() + 1))


@pytest.mark.skipif(usable_cores() < 2, reason="needs two cores")
def test_what_the_user_binds_stays_as_it_is():
    before = 'os.environ["OMP_PROC_BIND"] = "close"'
    assert all(len(mask) == usable_cores() for mask in masks(2, before))
