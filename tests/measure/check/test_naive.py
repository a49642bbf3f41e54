"""Tensor expressions are their own reference: the plain loops say what a schedule must compute."""

import logging
from contextlib import closing

import numpy as np
import pytest

import autotune.task as at
from autotune import te, topi
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
from autotune.measure.check.bounded_loops import bounded_kernel
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


@at.template("measure_test.in_parts")
def in_parts():
    q, k, v = (te.placeholder((16, 16), "float16", name) for name in "qkv")
    d, t = te.reduce_axis((0, 16), name="d"), te.reduce_axis((0, 16), name="t")

    def product(a, b):
        return a.astype("float32") * b.astype("float32")

    scores = te.compute((16, 16), lambda i, j: te.sum(product(q[i, d], k[j, d]), axis=d))
    low = te.const(-np.inf, "float32")
    share = topi.nn.softmax(
        te.compute((16, 16), lambda i, j: te.if_then_else(j <= i, scores[i, j], low))
    )
    c = te.compute((16, 16), lambda i, c: te.sum(product(share[i, t], v[t, c]), axis=t))
    at.get_config().add_flop(4 * 16**3)
    tensors = te.online([q, k, v, c], c, 4)
    return te.create_schedule(tensors[-1].op), tensors


def test_attention_in_parts_is_verified_too():
    task = at.create("measure_test.in_parts", (), target="c")
    option = measure_option(LocalBuilder(), LocalRunner(cooldown_interval=0, verify="all"))
    with Pipeline(task, option) as pipeline:
        pipeline.submit([MeasureInput(task.target, task, task.config_space.get(0))])
        ((_, result),) = pipeline.next_results()
    assert result.error_no == MeasureErrorNo.NO_ERROR, result
    assert result.extra["verified"]


@pytest.mark.many_cases
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


QUARTER = {"float32": 0.25, "float16": 0.25, "int32": 3}


@at.template("measure_test.recurrence")
def recurrence(dtype):
    """``Y[t] = W @ Y[t - 1] * QUARTER + X[t]``, and what it adds at each step."""
    x = te.placeholder((9, 20), dtype, name="x")
    w = te.placeholder((20, 20), dtype, name="w")
    state, added = (te.placeholder((9, 20), dtype, name=name) for name in ("s", "d"))
    firsts = [
        te.compute((2, 20), lambda t, i: x[t, i], name="first"),
        te.compute((2, 20), lambda t, i: x[t, i] * 0, name="none"),
    ]
    k = te.reduce_axis((0, 20), name="k")
    product = te.compute((9, 20), lambda t, i: te.sum(state[t - 1, k] * w[i, k], axis=k), name="p")
    small = te.compute((9, 20), lambda t, i: product[t, i] * QUARTER[dtype], name="small")
    step = te.compute((9, 20), lambda t, i: small[t, i] + x[t, i], name="step")
    shown = te.compute((9, 20), lambda t, i: state[t - 2, i] + added[t - 1, i], name="shown")
    y, sums = te.scan(firsts, [step, shown], [state, added], inputs=[x], name="y")
    out = te.compute((9, 20), lambda t, i: y[t, i] - sums[t, i], name="out")
    s = te.create_schedule(out.op)
    cfg = at.get_config()
    cfg.define_knob("vectors", [0, 1])
    if cfg["vectors"].val:
        s[small].compute_inline()
    return s, [x, w, out]


def of_rows(x, w):
    wide = np.int32 if x.dtype == np.int32 else np.float64
    y, sums = x.astype(wide), 0 * x.astype(wide)
    for t in range(2, 9):
        y[t] = w.astype(wide) @ y[t - 1] * QUARTER[str(x.dtype)] + x[t]
        sums[t] = y[t - 2] + sums[t - 1]
    return y - sums


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_recurrences_have_a_reference_with_bounds_of_all_steps(dtype):
    task = at.create("measure_test.recurrence", (dtype,), target="c")
    inp = MeasureInput(task.target, task, task.config_space.get(0))
    with closing(Oracle()) as oracle:
        data = oracle.data(inp, realise(inp).kernel)
        x, w = (read_values(path, dtype) for path in data.inputs)
        (check,) = data.checks
        found, wanted = read_values(check.path, dtype).astype("f8"), of_rows(x, w)
        bounds = np.load(check.bounds) if check.bounds else np.zeros_like(found)
    assert np.all(np.abs(found - wanted) <= bounds + 1e-3 * np.abs(wanted))
    assert bool(bounds[-1].max() > bounds[2].max()) == (dtype != "int32")


def test_trials_of_recurrences_are_verified():
    task = at.create("measure_test.recurrence", ("float32",), target="c")
    option = measure_option(LocalBuilder(), LocalRunner(cooldown_interval=0, verify="all"))
    with Pipeline(task, option) as pipeline:
        configs = [task.config_space.get(i) for i in range(2)]
        pipeline.submit([MeasureInput(task.target, task, config) for config in configs])
        results = []
        while pipeline.outstanding:
            results += [result for _, result in pipeline.next_results()]
    assert [r.error_no for r in results] == [MeasureErrorNo.NO_ERROR] * 2
    assert all(r.extra["verified"] for r in results)


@at.template("measure_test.unstable")
def unstable():
    """``Y[t] = tanh(W @ Y[t - 1] + X[t])`` with rows of W whose sums make errors grow."""
    x = te.placeholder((40, 16), name="x")
    w = te.placeholder((16, 16), name="w")
    state = te.placeholder((40, 16), name="s")
    first = te.compute((1, 16), lambda t, i: x[t, i], name="first")
    k = te.reduce_axis((0, 16), name="k")
    product = te.compute(
        (40, 16), lambda t, i: te.sum(state[t - 1, k] * w[i, k], axis=k), name="p"
    )
    step = te.compute((40, 16), lambda t, i: te.tanh(product[t, i] + x[t, i]), name="step")
    y = te.scan(first, step, state, inputs=[x], name="y")
    at.get_config().define_knob("none", [0])
    return te.create_schedule(y.op), [x, w, y]


def test_trials_whose_errors_may_grow_to_the_size_of_results_are_not_verified(caplog):
    task = at.create("measure_test.unstable", (), target="c")
    option = measure_option(LocalBuilder(), LocalRunner(cooldown_interval=0, verify="all"))
    with Pipeline(task, option) as pipeline, caplog.at_level("WARNING", "autotvm"):
        pipeline.submit([MeasureInput(task.target, task, task.config_space.get(0))])
        ((_, result),) = pipeline.next_results()
    assert result.ok
    assert result.extra["verified"] is False
    (said,) = [r.message for r in caplog.records if "not verified" in r.message]
    assert "elements of y may be off by as much as they are large" in said


def test_a_recurrence_that_needs_other_rows_of_what_it_computes_has_no_reference():
    x, state = te.placeholder((5, 8), name="x"), te.placeholder((5, 8), name="s")
    first = te.compute((1, 8), lambda t, i: x[t, i], name="first")
    turned = te.compute((8, 5), lambda i, t: state[t - 1, i], name="turned")
    step = te.compute((5, 8), lambda t, i: turned[i, t] + x[t, i], name="step")
    y = te.scan(first, step, state, inputs=[x], name="y")
    with pytest.raises(MeasureError, match=r"y is a te\.scan whose steps need more of turned"):
        bounded_kernel([x, y])


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
