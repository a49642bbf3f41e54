"""A trial's own process: nothing that it starts outlives it."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, MeasureErrorNo
from autotune.measure.run.replies import Ran, to_json
from autotune.runtime import summarize
from tests.faults.test_faults import gone
from tests.trials import inputs_of

LEAVES_C = """
#include <stdio.h>
#include <unistd.h>
void leaves(float *y) {
  static int left = 0;
  y[0] = 1.0f;
  if (left++) return;
  int pid = fork();
  if (!pid) {
    LEAVING;
    for (;;) pause();
  }
  FILE *file = fopen("PATH", "w");
  fprintf(file, "%d", pid);
  fclose(file);
}
"""


@at.template("measure_test.leaves")
def leaves(path, leaving):
    return SourceKernel(
        "leaves",
        LEAVES_C.replace("PATH", path).replace("LEAVING", leaving),
        args=[arg("y", (1,), role="out")],
        language="c",
    )


@pytest.mark.parametrize("leaving", ["(void)0", "setsid()"])
def test_what_a_kernel_leaves_behind_ends_with_its_trial(tmp_path, leaving):
    path = tmp_path / "pid"
    task = at.create("measure_test.leaves", (str(path), leaving), target="c")
    builder, runner = LocalBuilder(n_parallel=1), LocalRunner(number=1, repeat=1)
    runner.set_task(task)
    builder.set_task(task, {})
    inputs = inputs_of(task, [0])
    try:
        (result,) = runner.run(inputs, builder.build(inputs))
        assert result.ok, result
        assert gone(int(path.read_text()))
        assert len(runner.pids) == 1  # the process that forked the trial lives
    finally:
        runner.close()
        builder.close()


# Where a process is not given the orphans of its descendants, the group alone ends them.
ALONE = """
    import os, signal, sys, time
    from autotune.measure.process.isolate import in_fork
    from autotune.utils.child import Port
    requests, asking = os.pipe()
    told, replies = os.pipe()

    def trial(speak):
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        return pid

    print(in_fork(Port(requests, replies), 10, trial))
"""


def test_a_trial_is_ended_with_its_process_group():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ALONE)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=30,
        cwd=Path(__file__).parents[3],
    )
    assert gone(int(done.stdout))


# A kernel that answers in place of its worker, on every descriptor it finds: a whole message, as
# the worker would write it, of a trial that took no time.
FORGES_C = """
#include <string.h>
#include <unistd.h>
void forges(float *y) {
  const char *told = ANSWER;
  unsigned size = strlen(told);
  for (int fd = 3; fd < 1024; fd++) {
    write(fd, &size, 4);
    write(fd, told, size);
  }
  y[0] = 7.0f;
}
"""
DONE = to_json(Ran(summarize([1e-9] * 3, 1), verified=True))


@at.template("measure_test.forges")
def forges(answer):
    return SourceKernel(
        "forges",
        FORGES_C.replace("ANSWER", json.dumps(answer)),
        args=[arg("y", (1,), role="out")],
        reference=lambda: np.ones(1, "float32"),
        language="c",
    )


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "answer", [DONE, {"result": DONE}, {"event": "done"}, "garbage", None], ids=str
)
def test_a_kernel_cannot_speak_for_its_worker(answer):
    task = at.create("measure_test.forges", (json.dumps(answer),), target="c")
    builder, runner = LocalBuilder(n_parallel=1), LocalRunner(number=1, repeat=1)
    runner.set_task(task)
    builder.set_task(task, {})
    inputs = inputs_of(task, [0]) * 2
    try:
        results = runner.run(inputs, builder.build(inputs))
        assert [r.error_no for r in results] == [MeasureErrorNo.RUNTIME_DEVICE] * 2
        assert "wrote to a descriptor that it did not open" in results[0].error_msg
        assert len(runner.pids) == 1
    finally:
        runner.close()
        builder.close()


KEEPS = """
    import os
    from autotune.measure.process.isolate import in_fork
    from autotune.utils.child import Port
    requests, asking = os.pipe()
    told, replies = os.pipe()
    os.set_inheritable(replies, True)
    others = open("/dev/null"), open("/dev/null")

    def trial(speak):
        return [int(fd) for fd in os.listdir("/proc/self/fd") if is_open(int(fd))]

    def is_open(fd):
        try:
            return bool(os.fstat(fd))
        except OSError:
            return False

    print(len(in_fork(Port(requests, replies), 10, trial)))
"""


def test_a_trial_inherits_its_own_pipes_and_what_it_prints_to_and_nothing_else():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KEEPS)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=30,
        cwd=Path(__file__).parents[3],
    )
    assert int(done.stdout) == 5


LIMITED = """
    import resource
    import autotune
    from tests.measure.run import test_local

    limit = 6 << 30
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    task = autotune.create("measure_test.copy", args=(4096,), target="c")
    print(autotune.tuner.GridSearchTuner(task).tune(2, test_local.local()).failures)
"""


def test_trials_run_where_the_user_may_map_less_memory_than_the_machine_has():
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED)],
        capture_output=True, text=True, check=True, timeout=120, cwd=root,
    )  # fmt: skip
    assert done.stdout == "{}\n"
