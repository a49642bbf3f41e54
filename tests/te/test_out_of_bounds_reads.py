"""Warnings of computes that read beyond the ends of a tensor."""

import warnings

import pytest

import autotune
from autotune import te
from autotune.te.out_of_bounds_reads import warn_of_out_of_bounds_reads

N = 8
A = te.placeholder((N, N), name="A")
K = te.reduce_axis((0, 3), name="k")
NOTHING = te.reduce_axis((0, 0), name="nothing")

BEYOND = {
    "the last row": lambda i, j: A[i + 1, j],
    "before the first": lambda i, j: A[i, j - 1],
    "a window": lambda i, j: te.sum(A[i, j + K], axis=K),
    "in the first of several conditions": lambda i, j: te.if_then_else(
        te.all(A[i + 1, j] > 0, i < N - 1), 1.0, 0.0
    ),
    "in the condition itself": lambda i, j: te.if_then_else(A[i + 1, j] > 0, 1.0, 0.0),
}
WITHIN = {
    "each element": lambda i, j: A[j, i],
    "backwards": lambda i, j: A[N - 1 - i, j],
    "under a condition": lambda i, j: te.if_then_else(i < N - 1, A[i + 1, j], 0.0),
    "in a condition behind another": lambda i, j: te.if_then_else(
        te.all(j > 0, i < N - 1, A[i + 1, j - 1] > 0), 1.0, 0.0
    ),
    "in a condition where none before it holds": lambda i, j: te.if_then_else(
        te.any(i >= N - 1, A[i + 1, j] > 0), 1.0, 0.0
    ),
    "in a sum of nothing": lambda i, j: te.sum(A[i, NOTHING], axis=NOTHING),
    "clipped": lambda i, j: A[te.min(i + 1, N - 1), j],
    "by data": lambda i, j: A[A[i, j].astype("int32"), j],
}


def said(function):
    schedule = te.create_schedule(te.compute((N, N), function, name="C").op)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_out_of_bounds_reads(schedule)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize("what", BEYOND)
def test_what_is_read_beyond_a_tensor_is_told(what):
    (text,) = said(BEYOND[what])
    assert text.startswith("C reads A at ")
    assert "whose extent is 8" in text
    assert "te.if_then_else" in text


@pytest.mark.parametrize("what", WITHIN)
def test_what_is_read_within_a_tensor_is_not(what):
    assert said(WITHIN[what]) == []


def test_rows_of_a_recurrence_are_not_told_twice():
    state = te.placeholder((N, N), name="S")
    init = te.compute((1, N), lambda _, i: A[0, i])
    update = te.compute((N, N), lambda t, i: state[t - 1, i] + A[t, i])
    schedule = te.create_schedule(te.scan(init, update, state, inputs=[A]).op)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_out_of_bounds_reads(schedule)


def shifted():
    c = te.compute((N, N), BEYOND["the last row"], name="C")
    return te.create_schedule(c.op), [A, c]


def test_a_build_warns_at_the_line_that_asks_for_it():
    with pytest.warns(UserWarning, match="C reads A at 8 in dimension 0") as caught:
        autotune.build(*shifted(), "c")
    assert caught[0].filename == __file__


def test_a_task_warns_at_the_line_that_makes_it():
    template = autotune.template("test.shifted")(shifted)
    with pytest.warns(UserWarning, match="C reads A at 8 in dimension 0") as caught:
        autotune.create(template, (), "c")
    assert caught[0].filename == __file__
