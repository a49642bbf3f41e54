"""A trial's own process: nothing that it starts outlives it."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import autotune.task as at
from autotune.kernel import SourceKernel, arg
from autotune.measure import LocalBuilder, LocalRunner, MeasureInput
from tests.faults.test_faults import gone

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
    inputs = [MeasureInput(task.target, task, task.config_space.get(0))]
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
    from autotune.measure.isolate import in_fork
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
        cwd=Path(__file__).parent.parent.parent,
    )
    assert gone(int(done.stdout))
