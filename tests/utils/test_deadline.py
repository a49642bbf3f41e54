"""What counts towards a deadline is what a process does, not what it waits for a processor."""

import os
import signal
import subprocess
import sys
import time

import pytest

from autotune.utils import processor_time
from autotune.utils.processor_time import ProcessorTime

# The first process waits for what works: a thread, or a process of its own.
SPIN = """
import os, sys, time
core, way = sys.argv[1:]
os.sched_setaffinity(0, [int(core)])
if way != "other":
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
def spin():
    while True:
        pass
if way == "of-a-thread":
    import threading
    threading.Thread(target=spin, daemon=True).start()
elif way == "of-a-process" and not os.fork():
    spin()
print(flush=True)
spin() if way == "other" else time.sleep(60)
"""


@pytest.fixture
def spin():
    processes = []

    def start(way):
        argv = [sys.executable, "-c", SPIN, str(min(os.sched_getaffinity(0))), way]
        # In a session of its own, among which Linux may share out a core.
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
        processes.append(process)
        process.stdout.readline()
        return process

    yield start
    # One that gets no processor cannot end before those that take it do.
    for process in reversed(processes):
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux says who waits for a core")
@pytest.mark.parametrize("way", ["of-a-thread", "of-a-process"])
def test_work_that_gets_no_processor_hardly_counts(way, spin):
    process = spin(way)
    for _ in range(3):
        spin("other")
    processors = ProcessorTime(process.pid)
    processors.counted_s(0.1)  # what it did so far
    time.sleep(0.5)
    assert processors.counted_s(0.5) < 0.35


def test_a_process_that_ends_while_it_is_looked_at_is_left_out(monkeypatch):
    process = subprocess.Popen(["sleep", "60"])
    processors, read = ProcessorTime(process.pid), processor_time._fields

    def read_last(of):
        found = read(of)
        process.kill()
        process.wait()
        return found

    monkeypatch.setattr(processor_time, "_fields", read_last)
    assert processors.counted_s(0.5) == 0.5
