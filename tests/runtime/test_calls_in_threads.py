"""Calls from several threads at once have nothing in common that they write."""

import threading

import numpy as np

from autotune.kernel import SourceKernel, arg, call, constant, workspace
from tests.runtime.test_calls import N, zeros

# Long enough for threads to meet in it, and wrong as soon as two of them share the workspace.
SLOW_SUM = SourceKernel(
    "total",
    "void part(const float *x, float *w) {\n"
    "  for (int r = 0; r < 200; r++) for (int i = 0; i < 64; i++) w[i] += x[i]; }\n"
    "void all(const float *w, float *y) { *y = 0; for (int i = 0; i < 64; i++) *y += w[i]; }",
    [arg("x", (N,)), arg("y", (1,), role="out")],
    calls=[call("part", ["x", "w"]), call("all", ["w", "y"])],
    workspace=[workspace("w", (N,), zero=True)],
)


SCALE = SourceKernel(
    "scale",
    "float f[4];\nvoid scale(const float *x, float *y) {\n"
    "  for (int r = 0; r < 50; r++) for (int i = 0; i < 64; i++) y[i] = f[i % 4] * x[i]; }",
    [arg("x", (N,)), arg("y", (N,), role="out"), constant("f", (4,))],
)


def test_threads_have_workspaces_of_their_own(build):
    total, wrong = build(SLOW_SUM), []

    def work(number):
        x, y = np.full(N, number, "float32"), zeros(1)
        for _ in range(200):
            total(x, y)
            if y[0] != 200 * N * number:
                wrong.append(number)

    run_in_threads(work, 8)
    assert not wrong


def test_threads_do_not_see_the_constants_of_others(build):
    scale, wrong = build(SCALE), []

    def work(number):
        x, y, f = np.ones(N, "float32"), zeros(), np.full(4, number, "float32")
        for _ in range(300):
            scale(x, y, f)
            if not (y == number).all():
                wrong.append(number)

    run_in_threads(work, 6)
    assert not wrong


def run_in_threads(work, count):
    workers = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for one in workers:
        one.start()
    for one in workers:
        one.join(timeout=120)
        assert not one.is_alive()
