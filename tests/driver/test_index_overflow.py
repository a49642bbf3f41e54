"""Indices that leave 32 bits on their way are exact; loops that no index counts are refused."""

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.errors import LoweringError

N = 70_000
I = np.arange(N, dtype="int64")  # noqa: E741

# Of i, what is read or computed, and the same in numpy.
VALUES = {
    "square, remainder": (lambda a, i: a[i * i % N], lambda a: a[I * I % N]),
    "hash": (lambda a, i: a[(i * 1_000_003 + 5) % N], lambda a: a[(I * 1_000_003 + 5) % N]),
    "negative": (lambda a, i: a[(7 - i * i) % N], lambda a: a[(7 - I * I) % N]),
    "quotient": (lambda a, i: a[i * i // N], lambda a: a[I * I // N]),
    "choice": (
        lambda a, i: a[te.if_then_else(i < 60_000, i * i, 5) % N],
        lambda a: a[np.where(I < 60_000, I * I, 5) % N],
    ),
    "condition": (
        lambda a, i: te.if_then_else(i * i < 100, a[i], 7),
        lambda a: np.where(I * I < 100, a, 7),
    ),
    "value": (
        lambda a, i: a[i].astype("float64") + (i * i).astype("float64"),
        lambda a: a + (I * I).astype("float64"),
    ),
}


def scheduled(producer, consumer, target, inlined):
    s = te.create_schedule(consumer.op)
    if inlined:
        s[producer].compute_inline()
    for tensor in [consumer] if inlined else [producer, consumer]:
        outer, inner = s[tensor].split(tensor.op.axis[0], 64 if target != "c" else 8)
        if target == "c":
            s[tensor].vectorize(inner)
        else:
            s[tensor].bind(outer, te.thread_axis("blockIdx.x"))
            s[tensor].bind(inner, te.thread_axis("threadIdx.x"))
    return s


@pytest.mark.many_cases
@pytest.mark.parametrize("target", ["c", "cuda -emulate"])
@pytest.mark.parametrize("inlined", [False, True])
@pytest.mark.parametrize("value", VALUES)
def test_an_index_that_int32_does_not_hold_on_its_way_is_exact(value, inlined, target):
    of_te, of_numpy = VALUES[value]
    A = te.placeholder((N,), "int32", name="A")
    P = te.compute((N,), lambda i: A[i] + 1, name="P")
    B = te.compute((N,), lambda i: of_te(P, i), name="B")
    function = autotune.build(scheduled(P, B, target, inlined), [A, B], target=target)
    a, b = np.arange(N, dtype="int32"), np.zeros(N, B.dtype)
    function(a, b)
    np.testing.assert_array_equal(b, of_numpy(a + 1))


def test_a_sum_over_an_index_that_int32_does_not_hold_is_exact():
    A = te.placeholder((N,), "int32", name="A")
    k = te.reduce_axis((0, N), name="k")
    read = A[k * k % N].astype("int64")
    B = te.compute((1,), lambda i: te.sum(read, axis=k, where=k * k % 3 == 1), name="B")
    a, b = np.arange(N, dtype="int32"), np.zeros(1, "int64")
    autotune.build(te.create_schedule(B.op), [A, B], target="c")(a, b)
    assert b[0] == a[I * I % N][I * I % 3 == 1].astype("int64").sum()


def test_indices_that_int32_holds_stay_in_int32():
    A = te.placeholder((N,), "int32", name="A")
    B = te.compute((N,), lambda i: A[i * 30_000 % N] + i * 2, name="B")
    source = autotune.build(te.create_schedule(B.op), [A, B], target="c").get_source()
    assert "64" not in source


def test_fused_loops_that_no_index_counts_are_refused():
    A = te.placeholder((50_000,), "int8", name="A")
    i, j = (te.reduce_axis((0, 50_000), name=name) for name in "ij")
    B = te.compute((1,), lambda _: te.max(A[i] + A[j], axis=[i, j]), name="B")
    s = te.create_schedule(B.op)
    s[B].fuse(i, j)
    with pytest.raises(LoweringError, match="fused' would have 2500000000 iterations"):
        autotune.lower(s, [A, B])


def test_a_split_whose_tail_no_index_counts_is_refused():
    A = te.placeholder((2**31 - 5,), "int8", name="A")
    B = te.compute(A.shape, lambda i: A[i], name="B")
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], 4096)
    with pytest.raises(LoweringError, match="parts of loop 'i' would have 2147483648"):
        autotune.lower(s, [A, B])
