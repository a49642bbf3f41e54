"""Tasks the tests of measuring share: small C kernels with knobs."""

import numpy as np

import autotune.task as at
from autotune.kernel import SourceKernel, arg

SCALE_C = """
void scale(const float *x, float *y) {
  for (int r = 0; r < REPEAT; r++)
    for (int i = 0; i < N; i++) y[i] = FACTOR * x[i] + KNOB * 0.0f;
}
"""

FAULTS_C = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void faulty(const float *x, float *y) {
  for (int i = 0; i < 256; i++) y[i] = 2.0f * x[i] + KNOB * 0.0f;
#ifdef FAULT_compile
  this is not C;
#elif defined(FAULT_wrong)
  y[17] += 1.0f;
#elif defined(FAULT_unwritten)
  for (int i = 0; i < 256; i++) y[i] = 0.0f / 0.0f;
#elif defined(FAULT_loop)
  for (volatile int i = 0;; i++) {}
#elif defined(FAULT_segfault)
  *(volatile int *)8 = 1;
#elif defined(FAULT_exit)
  exit(3);
#elif defined(FAULT_exit0)
  exit(0);
#elif defined(FAULT_abort)
  abort();
#elif defined(FAULT_killed)
  kill(getpid(), SIGKILL);
#elif defined(FAULT_smash)
  volatile char small[8];
  volatile char *volatile beyond = small;
  for (int i = 0; i < 4096; i++) beyond[i] = 0x5a;
#elif defined(FAULT_heap)
  for (int i = -64; i < 0; i++) y[i] = 1e30f;
#elif defined(FAULT_hog)
  for (;;) { char *p = malloc(1 << 26); memset(p, 1, 1 << 16); }
#elif defined(FAULT_stop)
  raise(SIGSTOP);
#elif defined(FAULT_slow) || defined(FAULT_slow_too)
  usleep(FAULT_SECONDS * 1e6);
#elif defined(FAULT_kills_parent)
  kill(getppid(), SIGKILL);
  for (;;) pause();
#elif defined(FAULT_fork)
  if (fork() == 0) for (;;) pause();
#elif defined(FAULT_fork_segfault)
  if (fork() == 0) for (;;) pause();
  *(volatile int *)8 = 1;
#elif defined(FAULT_close)
  for (int fd = 3; fd < 1024; fd++) close(fd);
#elif defined(FAULT_close_loop)
  for (int fd = 3; fd < 1024; fd++) close(fd);
  for (;;) pause();
#elif defined(FAULT_prints)
  for (int i = 0; i < 20000; i++) printf("a kernel that prints %d\\n", i);
  fflush(stdout);
#endif
}
"""


def twice(x):
    return np.float32(2) * x


@at.template("measure_test.scale")
def scale(n, knobs):
    cfg = at.get_config()
    cfg.define_knob("knob", list(range(knobs)))
    cfg.add_flop(n)
    return SourceKernel(
        "scale",
        SCALE_C,
        defines={"N": n, "KNOB": cfg["knob"].val, "FACTOR": "2.0f", "REPEAT": 1},
        args=[arg("x", (n,)), arg("y", (n,), role="out")],
        reference=twice,
        language="c",
    )


@at.template("measure_test.faulty")
def faulty(faults):
    cfg = at.get_config()
    cfg.define_knob("fault", list(faults))
    cfg.define_knob("knob", [0, 1, 2, 3])
    cfg.add_flop(256)
    fault = cfg["fault"].val
    if fault == "refused":
        cfg.raise_error("this configuration is refused by its template")
    if fault == "template_bug":
        raise ZeroDivisionError("a bug in the template")
    name = "missing" if fault == "missing_entry" else "faulty"
    return SourceKernel(
        name,
        FAULTS_C,
        defines={
            "KNOB": cfg["knob"].val,
            f"FAULT_{fault}": 1,
            "FAULT_SECONDS": 0.1 + 0.01 * cfg["knob"].val + 0.005 * len(fault),
        },
        args=[arg("x", (256,)), arg("y", (256,), role="out")],
        reference=twice,
        language="c",
    )


def faulty_task(*faults):
    return at.create("measure_test.faulty", (list(faults),), target="c")
