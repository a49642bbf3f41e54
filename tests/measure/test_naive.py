"""Tensor expressions are their own reference: the plain loops say what a schedule must compute."""

import logging

import numpy as np
import pytest

import autotune.task as at
from autotune import te
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    Pipeline,
    measure_option,
)
from autotune.measure.naive import naive_kernel
from autotune.measure.realise import realise
from autotune.measure.values import read_values
from autotune.measure.verify import Oracle


@at.template("measure_test.matmul")
def matmul(n, dtype):
    a = te.placeholder((n, n), dtype, name="a")
    b = te.placeholder((n, n), dtype, name="b")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    s = te.create_schedule(c.op)
    cfg = at.get_config()
    i, j = s[c].op.axis
    cfg.define_split("tile_i", cfg.axis(i), num_outputs=2)
    outer, inner = cfg["tile_i"].apply(s, c, i)
    s[c].reorder(outer, s[c].op.reduce_axis[0], inner, j)
    return s, [a, b, c]


def task_of(dtype="float32"):
    return at.create("measure_test.matmul", (32, dtype), target="c")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_schedules_are_verified_against_the_plain_loops(dtype):
    task = task_of(dtype)
    option = measure_option(LocalBuilder(), LocalRunner(cooldown_interval=0, verify="all"))
    with Pipeline(task, option) as pipeline:
        configs = [task.config_space.get(i) for i in range(4)]
        pipeline.submit([MeasureInput(task.target, task, config) for config in configs])
        results = []
        while pipeline.outstanding:
            results += [result for _, result in pipeline.next_results()]
    assert [r.error_no for r in results] == [MeasureErrorNo.NO_ERROR] * 4
    assert all(r.extra["verified"] for r in results)


def test_the_plain_loops_compute_what_numpy_does():
    task = task_of()
    inp = MeasureInput(task.target, task, task.config_space.get(2))
    oracle = Oracle()
    try:
        data = oracle.data(inp, realise(inp))
        a, b = (read_values(path, "float32") for path in data.inputs)
        assert np.allclose(read_values(data.expected[0], "float32"), a @ b, rtol=1e-5, atol=1e-5)
    finally:
        oracle.close()


def test_the_plain_loops_forget_the_schedule():
    task = task_of()
    schedule, tensors = task.instantiate(task.config_space.get(3))
    scheduled = realise(MeasureInput(task.target, task, task.config_space.get(3)))
    plain = naive_kernel(schedule, tensors)
    assert plain.args == scheduled.args
    assert plain.source != scheduled.source


def test_what_cannot_be_verified_is_said_aloud(monkeypatch, caplog, tmp_path):
    task = task_of()
    inp = MeasureInput(task.target, task, task.config_space.get(0))
    kernel = realise(inp)
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    oracle = Oracle()
    with caplog.at_level(logging.WARNING, "autotvm"):
        assert oracle.data(inp, kernel).expected == ()
    oracle.close()
    assert "measure_test.matmul: results are not verified" in caplog.text
    assert "no such luck" in caplog.text
