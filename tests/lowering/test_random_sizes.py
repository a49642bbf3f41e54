"""Random schedules of computes whose extents are sizes, run in Python for several sizes."""

import random

import numpy as np
import pytest
from interpreter import run

from autotune import te
from autotune.errors import LoweringError, ScheduleError
from autotune.lowering import lower_schedule

SHAPES = ((1, 1), (4, 6), (7, 5), (13, 3))


def scale():
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((m, n), lambda i, j: b[i, j] * 2.0, name="C")
    return (m, n), a, b, c, lambda x: (x + 1) * 2


def stencil():
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] * 3.0, name="B")

    def body(i, j):
        left = te.if_then_else(j >= 1, b[i, j - 1], 0.0)
        right = te.if_then_else(j + 1 < n, b[i, j + 1], 0.0)
        return left + b[i, j] + right

    def reference(x):
        y = np.pad(3 * x, ((0, 0), (1, 1)))
        return y[:, :-2] + y[:, 1:-1] + y[:, 2:]

    return (m, n), a, b, te.compute((m, n), body, name="C"), reference


def flipped():
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[m - 1 - j, i], name="C")
    return (m, n), a, b, c, lambda x: (x[::-1] + 1).T.copy()


def row_sum():
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] * a[i, j], name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((m,), lambda i: te.sum(b[i, k], axis=k), name="C")
    return (m, n), a, b, c, lambda x: (x * x).sum(1)


def change(rng, stage, axes):
    """Split, fuse and reorder the loops of a stage; return them."""
    axes = list(axes)
    for _ in range(rng.randint(0, 3)):
        i = rng.randrange(len(axes))
        choice = rng.random()
        if choice < 0.6:
            by = {rng.choice(["factor", "nparts"]): rng.choice([1, 2, 3, 4, 8])}
            axes[i : i + 1] = stage.split(axes[i], **by)
        elif i + 1 < len(axes) and axes[i].kind == axes[i + 1].kind:
            axes[i : i + 2] = [stage.fuse(axes[i], axes[i + 1])]
    if rng.random() < 0.4:
        rng.shuffle(axes)
        stage.reorder(*axes)
    return axes


def on_threads(stage, axis):
    """Bind part of a loop to four threads."""
    _, inner = stage.split(axis, factor=4)
    stage.bind(inner, te.thread_axis("threadIdx.x"))


def draw(rng, make, gpu):
    """A random schedule of a workload."""
    sizes, a, b, c, reference = make()
    s = te.create_schedule(c.op)
    data = [axis for axis in change(rng, s[c], s[c].leaf_iter_vars) if axis.kind == "data"]
    if gpu:
        s[c].bind(data[0], te.thread_axis("blockIdx.x"))
        if len(data) > 1:
            on_threads(s[c], rng.choice(data[1:]))
    place = rng.random()
    if place < 0.3:
        s[b].compute_inline()
    elif place < 0.9 or gpu:
        s[b].compute_at(s[c], rng.choice(s[c].leaf_iter_vars))
        if gpu and rng.random() < 0.7:
            s[b].set_scope("shared")
    if place >= 0.3:
        own = change(rng, s[b], s[b].leaf_iter_vars)
        if s[b].scope == "shared" and rng.random() < 0.8:
            on_threads(s[b], rng.choice(own))
        elif not gpu and rng.random() < 0.3:
            s[b].vectorize(own[-1])
    return sizes, s, [a, c], reference


@pytest.mark.many_cases
@pytest.mark.parametrize("gpu", [False, True])
@pytest.mark.parametrize("make", [scale, stencil, flipped, row_sum])
def test_random_schedules_fit_all_sizes(make, gpu):
    refused = 0
    for seed in range(40):
        rng = random.Random(f"{make.__name__} {gpu} {seed}")
        try:
            sizes, s, args, reference = draw(rng, make, gpu)
            lowered = lower_schedule(s, args, target_kind="cuda" if gpu else "c")
        except (LoweringError, ScheduleError):
            refused += 1
            continue
        for shape in SHAPES:
            x = np.random.default_rng(seed).integers(1, 9, shape).astype("float32")
            expected = reference(x)
            out = np.full_like(expected, -1)
            run(lowered, [x, out], dict(zip(sizes, shape, strict=True)))
            np.testing.assert_array_equal(out, expected, err_msg=f"seed {seed}\n{lowered}")
    assert refused <= 28
