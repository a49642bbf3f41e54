"""Sums in phases: terms that are zero are left out, and nothing else changes."""

import itertools

import numpy as np
import pytest

from autotune import te, topi, tvm
from autotune.codegen import kernel_of_schedule
from autotune.errors import ScheduleError
from autotune.target import Target
from autotune.te.phases import phases_of
from tests.fuzz.running import Job, run_batch
from tests.te.test_reindex import body

ELEMENTS, CHANNELS = 5, 2


def zero():
    return te.const(0, "float32")


def apart(a, stride, before, room, in_two=False):
    """Elements of A with zeros between and around them, in one stage or in two."""
    last = (ELEMENTS - 1) * stride + 1
    if in_two:
        a = topi.nn.dilate(a, (stride, 1))

    def value(i, c):
        source = i - before
        inside = [source >= 0, source < last]
        if in_two:
            return te.if_then_else(te.all(*inside), a[source, c], zero())
        there = te.indexmod(source, stride).equal(0)
        read = a[te.indexdiv(source, stride), c]
        return te.if_then_else(te.all(*inside, there), read, zero())

    return te.compute((room, CHANNELS), value, name="D")


def transposed(results=6, terms=4, stride=2, before=2, in_two=False):
    """Inputs, what has zeros, and the sum of a transposed convolution in one dimension."""
    a = te.placeholder((ELEMENTS, CHANNELS), name="A")
    w = te.placeholder((terms, CHANNELS), name="w")
    d = apart(a, stride, before, results + terms - 1, in_two)
    k, c = te.reduce_axis((0, terms), name="k"), te.reduce_axis((0, CHANNELS), name="c")
    total = te.compute((results,), lambda h: te.sum(d[h + k, c] * w[k, c], axis=[k, c]), name="C")
    return [a, w], d, total


def test_phases_read_elements_without_zeros_between():
    _, d, c = transposed()
    s = te.create_schedule(c.op)
    cache = s.phases(c, "local")
    assert [int(n) for n in cache.shape] == [3, 2]
    assert "D[h.o.c + k + floordiv(h.i.c + 1, 2), c] * w[k * 2 + h.i.c, c]" in body(s, cache)
    assert body(s, c) == "C.local[floordiv(h, 2), floormod(h, 2)]"
    assert [int(n) for n in s[d].op.output(0).shape] == [5, 2]


def test_phases_compute_what_numpy_does(tmp_path):
    """Lengths that strides divide and do not, any first place, computed anywhere."""
    rng, jobs, wanted = np.random.default_rng(0), [], []
    cases = itertools.product((6, 7), (2, 3, 4, 5), (2, 3), (0, 1, 2, 3), (False, True))
    for i, (results, terms, stride, before, in_two) in enumerate(cases):
        inputs, d, c = transposed(results, terms, stride, before, in_two)
        s = te.create_schedule(c.op)
        cache = s.phases(c, "local")
        if in_two:
            s[s[d].op.input_tensors[0]].compute_inline()
        if i % 3:
            s[d].compute_inline()
        if i % 2:
            outer, _ = s[c].split(c.op.axis[0], factor=stride)
            s[cache].compute_at(s[c], outer)
        kernel = kernel_of_schedule(s, [*inputs, c], Target("c"), f"k{i}")
        a, w = (rng.integers(-3, 4, each.shape).astype("float32") for each in inputs)
        jobs.append(Job(kernel, [a, w], 0))
        dilated = np.zeros((64, CHANNELS), "float32")
        dilated[before : before + ELEMENTS * stride : stride] = a
        wanted.append([(dilated[h : h + terms] * w).sum() for h in range(results)])
    for got, want in zip(run_batch(jobs, tmp_path), wanted, strict=True):
        assert not isinstance(got, str), got
        np.testing.assert_array_equal(got[0], want)


def test_steps_of_phases_replay():
    _, d, c = transposed()
    s = te.create_schedule(c.op)
    s.phases(c, "local")
    rows = [step.to_json() for step in s.steps]
    assert rows == [["cache_write_phases", "3", "local"]]
    again = te.replay(s.outputs, [te.step_from_json(row) for row in rows])
    assert te.dag_text([again[c].op]) == te.dag_text([s[c].op])
    assert te.dag_text([again[d].op]) == te.dag_text([s[d].op])


def test_transposed_convolutions_have_a_phase_for_each_strided_dimension():
    x, w = te.placeholder((1, 4, 5, 5), name="x"), te.placeholder((4, 3, 4, 4), name="w")
    for strides, wanted in (((2, 3), [2, 3]), ((1, 2), [3]), ((1, 1), [])):
        out = topi.nn.conv2d_transpose_nchw(x, w, strides, 1)
        found = phases_of(out.op)
        assert [each.dimension for each in found.phases] == wanted if found else not wanted


def refused(kind):
    """A sum that has no phases, or whose phases another stage would notice."""
    inputs, d, c = transposed()
    a, w = inputs
    k, j = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, CHANNELS), name="j")
    axes = [k, j]
    if kind == "a maximum":
        return te.compute((6,), lambda h: te.max(d[h + k, j] * w[k, j], axis=axes), name="C")
    if kind == "a sum of sums":
        return te.compute((6,), lambda h: te.sum(d[h + k, j] + w[k, j], axis=axes), name="C")
    if kind == "results that read by their own places":
        b = te.placeholder((6,), name="b")
        return te.compute((6,), lambda h: te.sum(d[h + k, j] * b[h], axis=axes), name="C")
    if kind == "a stride in the sum":
        return te.compute((2,), lambda h: te.sum(d[h * 2 + k, j] * w[k, j], axis=axes), name="C")
    if kind == "no zeros between":
        e = te.compute((9, 2), lambda i, j: a[te.indexmod(i, 5), j], name="E")
        return te.compute((6,), lambda h: te.sum(e[h + k, j] * w[k, j], axis=axes), name="C")
    assert kind == "another reader"
    other = te.compute((6,), lambda h: d[h, 0] + c[h], name="F")
    return te.create_schedule(other.op), c


@pytest.mark.parametrize(
    "kind",
    ["a maximum", "a sum of sums", "results that read by their own places", "a stride in the sum",
     "no zeros between"],
)  # fmt: skip
def test_sums_without_phases_are_refused(kind):
    c = refused(kind)
    s = te.create_schedule(c.op)
    assert phases_of(c.op) is None
    with pytest.raises(ScheduleError, match=r"phases\(C\): expected a sum of products"):
        s.phases(c, "local")
    assert s.steps == ()


def test_what_others_read_keeps_its_zeros():
    s, c = refused("another reader")
    with pytest.raises(ScheduleError, match=r"expected that it alone reads D, got \['C', 'F'\]"):
        s.phases(c, "local")


def test_phases_come_before_all_that_schedules_the_sum():
    _, _, c = transposed()
    s = te.create_schedule(c.op)
    s[c].split(c.op.axis[0], factor=2)
    with pytest.raises(ScheduleError, match=r"phases\(C\): C is scheduled already"):
        s.phases(c, "local")


def test_a_tensor_with_zeros_may_be_of_any_length():
    """The sum reads the first places of one whose length is known to the caller alone."""
    n = te.var("n")
    a, w = te.placeholder((4,), name="A"), te.placeholder((4,), name="w")
    d = te.compute(
        (n,), lambda i: te.if_then_else(te.indexmod(i, 2).equal(0), a[te.indexdiv(i, 2)], zero())
    )
    k = te.reduce_axis((0, 4), name="k")
    c = te.compute((5,), lambda h: te.sum(d[h + k] * w[k], axis=k), name="C")
    s = te.create_schedule(c.op)
    s.phases(c, "local")
    values = np.arange(1, 5, dtype="float32")
    device = tvm.cpu()
    given = [tvm.nd.array(each, device) for each in (values, values, np.zeros(5, "float32"))]
    tvm.build(s, [a, w, n, c], "llvm")(*given[:2], 8, given[2])
    np.testing.assert_array_equal(given[2].numpy(), [7, 16, 11, 22, 15])


@pytest.mark.parametrize("rest", [1, 2])
def test_places_may_be_those_of_any_remainder(rest, tmp_path):
    a, w = te.placeholder((3,), name="A"), te.placeholder((4,), name="w")
    d = te.compute(
        (9,),
        lambda i: te.if_then_else(te.indexmod(i, 3).equal(rest), a[te.indexdiv(i, 3)], zero()),
    )
    k = te.reduce_axis((0, 4), name="k")
    c = te.compute((6,), lambda h: te.sum(d[h + k] * w[k], axis=k), name="C")
    s = te.create_schedule(c.op)
    s.phases(c, "local")
    kernel = kernel_of_schedule(s, [a, w, c], Target("c"), f"rest{rest}")
    x, y = np.arange(1, 4, dtype="float32"), np.arange(1, 5, dtype="float32")
    (got,) = run_batch([Job(kernel, [x, y], 0)], tmp_path)
    dilated = np.zeros(9, "float32")
    dilated[rest::3] = x
    np.testing.assert_array_equal(got[0], [(dilated[h : h + 4] * y).sum() for h in range(6)])
