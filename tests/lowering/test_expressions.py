"""Bodies of all kinds: axes as values, gathered indices, casts, conditions, inlined chains."""

import numpy as np
import pytest
from interpreter import run

from autotune import te, topi
from autotune.ir import Max, Min, Select, as_expr
from autotune.lowering import infer_bound, lower_schedule


def check(s, args, arrays, expected):
    lowered = lower_schedule(s, args)
    out = np.full(args[-1].shape, -99).astype(args[-1].dtype)
    run(lowered, [*arrays, out])
    np.testing.assert_allclose(out, expected, rtol=1e-5)
    return str(lowered)


def split_and_vectorize(B, factor=4):
    s = te.create_schedule(B.op)
    _, inner = s[B].split(s[B].op.axis[-1], factor=factor)
    s[B].vectorize(inner)
    return s


def threads(B, factor=4, vector=2):
    s = te.create_schedule(B.op)
    rest, lane = s[B].split(s[B].op.axis[-1], factor=vector)
    _, thread = s[B].split(rest, factor=factor)
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    s[B].vectorize(lane)
    return s


SCHEDULES = pytest.mark.parametrize("schedule", [split_and_vectorize, threads])


@SCHEDULES
def test_axes_are_values_too(schedule):
    A = te.placeholder((14,), name="A")
    B = te.compute((14,), lambda i: A[i] * i.astype("float32") + (i % 3).astype("float32"))
    a = np.arange(14, dtype="float32")
    i = np.arange(14)
    check(schedule(B), [A, B], [a], a * i + i % 3)


@SCHEDULES
def test_an_index_may_be_read_from_a_tensor(schedule):
    A, at = te.placeholder((9,), name="A"), te.placeholder((14,), "int32", name="at")
    B = te.compute((14,), lambda i: A[at[i] + 1])
    a = np.arange(9, dtype="float32") * 10
    where = (np.arange(14, dtype="int32") * 5) % 8
    check(schedule(B), [A, at, B], [a, where], a[where + 1])


def test_a_gathered_stage_is_computed_whole():
    A, at = te.placeholder((9,), name="A"), te.placeholder((14,), "int32", name="at")
    T = te.compute((9,), lambda i: A[i] + 1.0, name="T")
    B = te.compute((14,), lambda i: T[at[i]], name="B")
    s = te.create_schedule(B.op)
    s[T].compute_at(s[B], s[B].op.axis[0])
    a = np.arange(9, dtype="float32")
    where = (np.arange(14, dtype="int32") * 5) % 9
    check(s, [A, at, B], [a, where], a[where] + 1)


@SCHEDULES
def test_conditions_on_values_and_on_axes(schedule):
    A = te.placeholder((14,), name="A")
    B = te.compute(
        (14,),
        lambda i: Select(A[i] > 3.0, A[i], te.if_then_else(i >= 2, A[i - 2], te.const(0.0))),
    )
    a = np.arange(14, dtype="float32") % 6
    shifted = np.concatenate([[0, 0], a[:-2]])
    check(schedule(B), [A, B], [a], np.where(a > 3, a, shifted))


@SCHEDULES
@pytest.mark.parametrize("dtype", ["int8", "int64", "float64", "bool"])
def test_casts_between_dtypes(schedule, dtype):
    A = te.placeholder((14,), name="A")
    B = te.compute((14,), lambda i: A[i].astype(dtype))
    a = (np.arange(14) % 3).astype("float32")
    check(schedule(B), [A, B], [a], a.astype(dtype))


def test_clamped_indices_reach_no_further_than_they_may():
    A = te.placeholder((10,), name="A")
    T = te.compute((10,), lambda i: A[i] * 2.0, name="T")
    B = te.compute((10,), lambda i: T[Max(Min(i + 2, as_expr(9)), as_expr(3))])
    s = te.create_schedule(B.op)
    outer, _ = s[B].split(s[B].op.axis[0], factor=5)
    s[T].compute_at(s[B], outer)
    a = np.arange(10, dtype="float32")
    check(s, [A, B], [a], 2 * a[np.clip(np.arange(10) + 2, 3, 9)])


def test_a_negative_step_turns_a_tensor_around():
    A = te.placeholder((12,), name="A")
    T = te.compute((12,), lambda i: A[i] + 1.0, name="T")
    B = te.compute((12,), lambda i: T[11 - i], name="B")
    s = te.create_schedule(B.op)
    outer, _ = s[B].split(s[B].op.axis[0], factor=5)
    s[T].compute_at(s[B], outer)
    a = np.arange(12, dtype="float32")
    text = check(s, [A, B], [a], (a + 1)[::-1])
    assert "float32[5] @local" in text


def test_a_chain_of_inlined_stages_is_one_loop():
    A = te.placeholder((4, 6), name="A")
    T = topi.transpose(topi.nn.relu(A), (1, 0))
    R = topi.reshape(T, (24,))
    B = te.compute((24,), lambda i: R[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    for stage in s.stages[1:-1]:
        stage.compute_inline()
    a = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")
    text = check(s, [A, B], [a], np.maximum(a, 0).T.reshape(-1) + 1)
    assert text.count("for ") == 1


def test_bounds_of_an_attached_stage_follow_its_reader():
    A = te.placeholder((64,), name="A")
    T = te.compute((64,), lambda i: A[i] * 2.0, name="T")
    B = te.compute((60,), lambda i: T[i] + T[i + 4], name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(s[B].op.axis[0], factor=10)
    s[T].compute_at(s[B], outer)
    bounds = infer_bound(s)
    assert int(bounds[outer].extent) == 6
    assert int(bounds[inner].extent) == 10
    assert int(bounds[T.op.axis[0]].extent) == 14
    assert str(bounds[T.op.axis[0]].min) == "i.outer * 10"


@pytest.mark.parametrize(("border", "wide"), [(16, True), (8, True), (18, False), (17, False)])
def test_lanes_that_agree_on_a_condition_are_a_vector(border, wide):
    A, other = te.placeholder((32,), name="A"), te.placeholder((32,), name="O")
    B = te.compute(
        (32,), lambda i: te.if_then_else(te.all(i < border, i >= 4), A[i], other[31 - i])
    )
    C = te.compute((32,), lambda i: te.if_then_else(i < border, A[i], other[i]))
    a, o = np.arange(32, dtype="float32"), -np.arange(32, dtype="float32")
    i = np.arange(32)
    check(threads(B, 2, 4), [A, other, B], [a, o], np.where((i < border) & (i >= 4), a, o[::-1]))
    text = check(threads(C, 2, 4), [A, other, C], [a, o], np.where(i < border, a, o))
    assert ("ramp" in text.lower()) == wide
