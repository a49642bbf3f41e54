"""Forks of a process whose kernels have used threads."""

import subprocess
import sys

from tests.forked import ROOT

FORKED = """
import os, signal, sys
import numpy as np
import autotune

SOURCE = '''
int omp_get_thread_num(void);
void who(int *by) {
#pragma omp parallel for schedule(static)
  for (int i = 0; i < 64; i++) by[i] = omp_get_thread_num();
}'''
who = autotune.build(
    autotune.SourceKernel("who", SOURCE, [autotune.arg("by", (64,), "int32", role="out")]),
    target="llvm",
)

def threads():
    by = np.full(64, -1, "int32")
    who(by)
    return sorted(set(by.tolist()))

assert threads() == [0, 1]  # these threads are not in the fork
child = os.fork()
if child == 0:
    signal.alarm(60)  # a fork that waits for ever ends by a signal
    os._exit(0 if threads() == [0, 1] else 1)
print("fork", os.waitpid(child, 0)[1], "own", threads())
"""


def test_a_fork_calls_parallel_kernels_with_threads_of_its_own(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    ran = subprocess.run(
        [sys.executable, "-c", FORKED], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert ran.stdout == "fork 0 own [0, 1]\n", ran.stderr
