"""What random schedules once found, in the smallest form that shows it."""

import numpy as np
import pytest

from autotune import te
from autotune.codegen import kernel_of_schedule
from autotune.target import Target
from tests.fuzz.check import Trial, run
from tests.fuzz.workloads import Workload


def check(schedule, workload, language, tmp_path):
    """Run a schedule and compare it with numpy."""
    trial = Trial(1, "found", language, workload, schedule)
    trial.kernel = kernel_of_schedule(schedule, workload.args, Target(language), "found")
    run([trial], tmp_path)
    assert not trial.failure, trial.report()


def bound(stage, **axes):
    for tag, axis in axes.items():
        word = {"b": "blockIdx", "t": "threadIdx"}[tag[0]]
        stage.bind(axis, te.thread_axis(f"{word}.{tag[1]}"))


def test_an_expression_used_twice_follows_the_loops(tmp_path):
    x, mean = te.placeholder((4, 16), name="X"), te.placeholder((4,), name="mean")

    def body(i, j):
        scaled = mean[i] / 16.0
        return (x[i, j] - scaled) * (scaled + 1.0)

    y = te.compute((4, 16), body, name="Y")
    s = te.create_schedule(y.op)
    s[y].fuse(*s[y].op.axis)

    def reference(a, m):
        scaled = m[:, None] / 16
        return (a - scaled) * (scaled + 1)

    check(s, Workload((x, mean), (y,), reference), "c", tmp_path)


@pytest.mark.parametrize("language", ["c", "cuda"])
def test_a_stage_read_by_a_reduction_and_by_another_can_be_inline(language, tmp_path):
    x = te.placeholder((8, 16), name="X")
    e = te.compute((8, 16), lambda i, j: te.exp(x[i, j]), name="e")
    k = te.reduce_axis((0, 16), "k")
    total = te.compute((8,), lambda i: te.sum(e[i, k], axis=k), name="total")
    y = te.compute((8, 16), lambda i, j: e[i, j] / total[i], name="Y")
    s = te.create_schedule(y.op)
    s[e].compute_inline()
    if language == "cuda":
        bound(s[total], tx=total.op.axis[0])
        bound(s[y], bx=y.op.axis[0], tx=y.op.axis[1])
    reference = lambda a: np.exp(a) / np.exp(a).sum(1, keepdims=True)
    check(s, Workload((x,), (y,), reference), language, tmp_path)


def test_what_threads_compute_for_each_other_is_shared_also_without_blocks(tmp_path):
    x = te.placeholder((8, 8), name="X")
    i, j = te.reduce_axis((0, 8), "i"), te.reduce_axis((0, 8), "j")
    y = te.compute((), lambda: te.sum(x[i, j], axis=[i, j]), name="Y")
    s = te.create_schedule(y.op)
    _, inner = s[y].split(i, factor=16)
    part = s.rfactor(y, inner)
    outer, lane = s[y].split(s[y].op.reduce_axis[0], factor=64)
    bound(s[y], tx=lane)
    s[part].compute_at(s[y], outer)
    _, lane = s[part].split(s[part].op.axis[0], factor=64)
    bound(s[part], tx=lane)
    check(s, Workload((x,), (y,), lambda a: a.sum(), 1e-3), "cuda", tmp_path)


@pytest.mark.parametrize("ahead", ["double_buffer", "async_copy"])
def test_a_stage_fetched_ahead_may_have_a_stage_computed_in_it(ahead, tmp_path):
    x = te.placeholder((64, 32), name="X")
    twice = te.compute((64, 32), lambda i, j: x[i, j] * 2.0, name="twice")
    k = te.reduce_axis((0, 32), "k")
    y = te.compute((64,), lambda i: te.sum(twice[i, k], axis=k), name="Y")
    s = te.create_schedule(y.op)
    shared = s.cache_read(twice, "shared", [y])
    outer, inner = s[y].split(y.op.axis[0], factor=16)
    bound(s[y], bx=outer, tx=inner)
    ko, _ = s[y].split(y.op.reduce_axis[0], factor=8)
    s[shared].compute_at(s[y], ko)
    bound(s[shared], tx=s[shared].op.axis[0])
    s[twice].compute_at(s[shared], s[shared].op.axis[1])
    getattr(s[shared], ahead)()
    reference = lambda a: (a * 2).sum(1)
    check(s, Workload((x,), (y,), reference, 1e-3), "cuda", tmp_path)
