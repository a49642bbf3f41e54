"""The configuration of te templates that were never tuned."""

import autotune.templates
import numpy as np
import pytest

import autotune
from autotune import te
from autotune.driver import build, kernel_of
from autotune.features import estimated_seconds
from autotune.task import TASK_TABLE, FallbackConfigEntity

TARGET = "cuda -emulate"


@pytest.fixture
def scale():
    """A template as users write it: it says nothing of what it does untuned."""

    @autotune.template("tests/untuned/scale")
    def scale(n):
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
        s = te.create_schedule(b.op)
        cfg = autotune.get_config()
        cfg.define_split("tile", b.op.axis[0], num_outputs=3)
        block, thread, _ = cfg["tile"].apply(s, b, b.op.axis[0])
        s[b].bind(block, te.thread_axis("blockIdx.x"))
        s[b].bind(thread, te.thread_axis("threadIdx.x"))
        return s, [a, b]

    yield scale
    del TASK_TABLE["tests/untuned/scale"]


def test_blocks_of_a_template_that_chooses_nothing_have_threads(scale):
    task = autotune.create("tests/untuned/scale", (1 << 22,), TARGET)
    first, best = task.config_space.get(0), task.default()
    assert best["tile"].size[1] >= 32
    times = [
        estimated_seconds(*task.instantiate(each), task.target.limits) for each in (first, best)
    ]
    assert times[1] < times[0] / 5


def test_a_call_and_the_task_have_the_same_choice(scale):
    task = autotune.create("tests/untuned/scale", (1 << 12,), TARGET)
    with autotune.Target(TARGET):
        schedule, args = scale(1 << 12)
    again = autotune.create("tests/untuned/scale", (1 << 12,), TARGET)
    assert task.default().index == again.default().index
    own = kernel_of(task.instantiate(task.default()), task.target).source
    assert own == kernel_of((schedule, args), task.target).source


def test_on_a_cpu_the_first_value_of_each_knob_stays():
    @autotune.template("tests/untuned/cpu")
    def cpu(n):
        b = te.compute((n,), lambda i: i * 2, name="B")
        s = te.create_schedule(b.op)
        autotune.get_config().define_split("tile", b.op.axis[0], num_outputs=2)
        return s, [b]

    try:
        assert autotune.create("tests/untuned/cpu", (64,), "c").default().index == 0
    finally:
        del TASK_TABLE["tests/untuned/cpu"]


@pytest.mark.parametrize("way", ["asks", "sets", "splits"])
def test_a_template_that_chooses_keeps_its_choice(way):
    @autotune.template("tests/untuned/chooses")
    def chooses(n):
        b = te.compute((n,), lambda i: i * 2, name="B")
        s = te.create_schedule(b.op)
        cfg = autotune.get_config()
        cfg.define_split("tile", b.op.axis[0], num_outputs=2)
        if way == "asks":
            assert cfg.is_fallback in (True, False)
        elif isinstance(cfg, FallbackConfigEntity):
            if way == "sets":
                cfg["tile"] = autotune.task.SplitEntity([-1, 1])
            else:
                cfg.fallback_split("tile", [-1, 1])
        block, thread = cfg["tile"].apply(s, b, b.op.axis[0])
        s[b].bind(block, te.thread_axis("blockIdx.x"))
        s[b].bind(thread, te.thread_axis("threadIdx.x"))
        return s, [b]

    try:
        task = autotune.create("tests/untuned/chooses", (1 << 12,), TARGET)
        assert task.default()["tile"].size[-1] == 1
    finally:
        del TASK_TABLE["tests/untuned/chooses"]


@pytest.mark.many_cases
@pytest.mark.parametrize("shape", [(1, 70, 64), (53, 47, 50), (37, 5, 129)], ids=str)
@pytest.mark.parametrize("name", ["te/dense.cuda", "te/gemm.cuda"])
def test_products_of_odd_extents_are_right_untuned(name, shape):
    m, n, k = shape
    task = autotune.create(name, shape, TARGET)
    schedule, args = task.instantiate(task.default())
    rng = np.random.default_rng(0)
    a = rng.normal(size=(m, k)).astype("float32")
    b = rng.normal(size=(n, k) if "dense" in name else (k, n)).astype("float32")
    out = np.zeros((m, n), "float32")
    build(schedule, args, TARGET)(a, b, out)
    wanted = a @ (b.T if "dense" in name else b)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
