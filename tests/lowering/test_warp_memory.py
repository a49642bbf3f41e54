"""Memory of a warp is in registers where each thread reads only what it has stored itself."""

import numpy as np
import pytest
from interpreter import run

from autotune import build, te
from autotune.codegen import kernel_of_schedule
from autotune.errors import InstantiationError
from autotune.lowering.lower import lower_schedule
from autotune.target import Limits, Target

GPU = Target("cuda -arch=sm_90")
ROWS, COLUMNS, OWN = 16, 64, 2


def in_lanes(s, stage, tensor, threads, own=OWN):
    """Give rows to threadIdx.y, and to each threadIdx.x pairs of neighbouring columns."""
    row, column = tensor.op.axis
    rows, lane_row = stage.split(row, factor=8)
    runs, rest = stage.split(column, factor=4 * own)
    lane_column, last = stage.split(rest, factor=own)
    stage.reorder(rows, lane_row, runs, lane_column, last)
    stage.bind(lane_row, threads[1])
    stage.bind(lane_column, threads[0])
    return rows


def scheduled(read=lambda i, j: (i, j), own=OWN, scope="warp", shape=(ROWS, COLUMNS)):
    """``C = B[read] * 2`` of one block, where ``B = A + 1`` is in memory of a warp."""
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda i, j: a[i, j] + 1, name="B")
    c = te.compute(shape, lambda i, j: b[read(i, j)] * 2, name="C")
    s = te.create_schedule(c.op)
    threads = te.thread_axis("threadIdx.x"), te.thread_axis("threadIdx.y")
    rows = in_lanes(s, s[c], c, threads)
    block, _ = s[c].split(rows, nparts=1)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[b].set_scope(scope)
    s[b].compute_at(s[c], block)
    in_lanes(s, s[b], b, threads, own)
    return s, [a, c]


def text_of(schedule, args):
    return kernel_of_schedule(schedule, args, GPU, "kernel").source


def computed(schedule, args, shape=(ROWS, COLUMNS)):
    given = np.random.default_rng(0).random((ROWS, COLUMNS)).astype("float32")
    found = np.zeros(shape, "float32")
    build(schedule, args, "cuda -emulate")(given, found)
    return given, found


def test_registers_do_not_count_as_shared_memory():
    shape, most = (512, 128), Limits(shared_bytes_optin=232448)
    lower_schedule(*scheduled(shape=shape), limits=most)
    with pytest.raises(InstantiationError, match="bytes of shared memory per block is 262144"):
        lower_schedule(*scheduled(own=4, shape=shape), limits=most)


def test_what_a_thread_reads_of_its_own_is_in_registers():
    text = text_of(*scheduled())
    assert f"float B[{ROWS * COLUMNS // 32}];" in text
    assert "__shared__" not in text
    assert "__syncthreads" not in text
    given, found = computed(*scheduled())
    np.testing.assert_allclose(found, (given + 1) * 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("read", "own"),
    [(lambda i, j: (i, (j + 2) % COLUMNS), OWN), (lambda i, j: (i, j), 4)],
    ids=["a neighbour's", "in another order"],
)
def test_what_a_thread_reads_of_others_is_in_shared_memory(read, own):
    text = text_of(*scheduled(read, own))
    assert "__shared__" in text
    assert "__syncthreads" in text
    given, found = computed(*scheduled(read, own))
    i, j = np.indices((ROWS, COLUMNS))
    np.testing.assert_allclose(found, (given + 1)[read(i, j)] * 2, rtol=1e-6)


def test_shared_memory_that_was_asked_for_stays():
    assert "__shared__" in text_of(*scheduled(scope="shared"))


def sums_of_rows(read=lambda i: i):
    """``C = A - sums[read]`` of one block, whose threadIdx.x sum up rows together."""
    a = te.placeholder((ROWS, COLUMNS), name="A")
    k = te.reduce_axis((0, COLUMNS), "k")
    b = te.compute((ROWS,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((ROWS, COLUMNS), lambda i, j: a[i, j] - b[read(i)], name="C")
    s = te.create_schedule(c.op)
    threads = te.thread_axis("threadIdx.x"), te.thread_axis("threadIdx.y")
    rows = in_lanes(s, s[c], c, threads)
    block, _ = s[c].split(rows, nparts=1)
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[b].set_scope("warp")
    s[b].compute_at(s[c], block)
    outer, lane_row = s[b].split(b.op.axis[0], factor=8)
    terms, lane = s[b].split(k, factor=4)
    s[b].reorder(outer, lane_row, lane, terms)
    s[b].bind(lane_row, threads[1])
    s[b].bind(lane, threads[0])
    return s, [a, c]


def test_all_threads_that_sum_a_row_have_its_sum():
    schedule = sums_of_rows()
    text = text_of(*schedule)
    assert "float B[2];" in text
    assert "__shared__" not in text
    given, found = computed(*schedule)
    np.testing.assert_allclose(found, given - given.sum(1, keepdims=True), rtol=1e-5)


def test_one_thread_stores_a_sum_that_others_read_in_shared_memory():
    schedule, args = sums_of_rows(lambda i: ROWS - 1 - i)
    lowered = lower_schedule(schedule, args, target_kind="cuda")
    assert "B: float32[16] @shared" in str(lowered)
    given, found = np.random.default_rng(0).random((2, ROWS, COLUMNS)).astype("float32")
    run(lowered, [given, found])  # says of two threads that store one element that they race
    np.testing.assert_allclose(found, given - given.sum(1, keepdims=True)[::-1], rtol=1e-5)
