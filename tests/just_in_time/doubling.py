"""A template that doubles, and what runs it and records trials of it."""

import time

import numpy as np

import autotune
from autotune.measure.types import MeasureInput, MeasureResult
from autotune.record import open_database

SOURCE = """
void scale(const float *x, float *y) {
  for (int i = 0; i < N; i += STEP)
    for (int j = i; j < i + STEP && j < N; ++j) y[j] = 2 * x[j];
}
"""


@autotune.template("tests.jit.scale")
def scale(n):
    cfg = autotune.get_config()
    cfg.define_knob("step", [1, 8, 64])
    cfg.add_flop(n)
    return autotune.SourceKernel(
        "scale",
        SOURCE,
        [autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")],
        {"N": n, "STEP": cfg["step"].val},
        reference=lambda x: 2 * x,
    )


def length(x, y):
    return (x.shape[0],)


def put(log, template, args, index, seconds):
    task = autotune.create(template, args=args, target="llvm")
    result = MeasureResult((seconds,), 0, 0.1, time.time())
    open_database(log).extend(
        [(MeasureInput(task.target, task, task.config_space.get(index)), result)]
    )


def arrays(n):
    return np.arange(n, dtype="float32"), np.zeros(n, "float32")


def step_of(choice):
    return choice.module.kernel.source.split("STEP ")[1].split()[0]


def run(function, n):
    x, y = arrays(n)
    function(x, y)
    np.testing.assert_array_equal(y, 2 * x)
    return function.choice(x, y)
