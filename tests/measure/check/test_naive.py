"""Tensor expressions are their own reference: the plain loops say what a schedule must compute."""

import logging

import numpy as np
import pytest

import autotune.task as at
from autotune import te
from autotune.errors import MeasureError
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureErrorNo,
    MeasureInput,
    Pipeline,
    measure_option,
)
from autotune.measure.build.realise import realise
from autotune.measure.check.verify import Oracle
from autotune.measure.run.value_files import read_values


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


@at.template("measure_test.half_sums")
def half_sums(sums):
    a = te.placeholder((8, 2048), "float16", name="a")
    b = te.placeholder((2048, 8), "float16", name="b")
    k = te.reduce_axis((0, 2048), name="k")

    def term(i, j):
        return a[i, k].astype(sums) * b[k, j].astype(sums)

    c = te.compute((8, 8), lambda i, j: te.sum(term(i, j), axis=k), name="c")
    d = te.compute((8, 8), lambda i, j: c[i, j].astype("float16"), name="d")
    s = te.create_schedule(d.op)
    cfg = at.get_config()
    cfg.define_knob("lanes", [1, 64])
    if cfg["lanes"].val > 1:
        _, lane = s[c].split(k, factor=cfg["lanes"].val)
        s.rfactor(c, lane)
    return s, [a, b, d]


@pytest.mark.parametrize("sums", ["float16", "float32"])
def test_a_schedule_is_compared_as_its_sums_are_kept(sums):
    task = at.create("measure_test.half_sums", (sums,), target="c")
    option = measure_option(LocalBuilder(), LocalRunner(cooldown_interval=0, verify="all"))
    with Pipeline(task, option) as pipeline:
        configs = [task.config_space.get(i) for i in range(2)]
        pipeline.submit([MeasureInput(task.target, task, config) for config in configs])
        results = []
        while pipeline.outstanding:
            results += [result for _, result in pipeline.next_results()]
    assert [r.error_msg for r in results] == ["", ""]
    assert all(r.extra["verified"] for r in results)


def test_the_plain_loops_compute_what_numpy_does():
    task = task_of()
    inp = MeasureInput(task.target, task, task.config_space.get(2))
    oracle = Oracle()
    try:
        data = oracle.data(inp, realise(inp).kernel)
        a, b = (read_values(path, "float32") for path in data.inputs)
        assert np.allclose(
            read_values(data.checks[0].path, "float32"), a @ b, rtol=1e-5, atol=1e-5
        )
    finally:
        oracle.close()


def test_nothing_is_said_of_a_reference_that_nobody_waits_for_any_more(monkeypatch, caplog):
    task = task_of()
    inp = MeasureInput(task.target, task, task.config_space.get(0))
    oracle = Oracle()

    def ended(*_):
        oracle.end()
        raise MeasureError("its files are gone")

    monkeypatch.setattr("autotune.measure.check.verify.naive_outputs", ended)
    assert oracle.data(inp, realise(inp).kernel).checks == ()
    assert not caplog.text


def test_what_cannot_be_verified_is_said_aloud(monkeypatch, caplog, tmp_path):
    task = task_of()
    inp = MeasureInput(task.target, task, task.config_space.get(0))
    kernel = realise(inp).kernel
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    oracle = Oracle()
    with caplog.at_level(logging.WARNING, "autotvm"):
        assert oracle.data(inp, kernel).checks == ()
    oracle.close()
    assert "measure_test.matmul: results are not verified" in caplog.text
    assert "no such luck" in caplog.text
