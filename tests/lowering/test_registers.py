"""Private arrays stay in registers, and results are written by vectors, on a GPU."""

import re

import pytest

from autotune import te, topi
from autotune.driver import kernel_of
from autotune.errors import LoweringError
from autotune.target import Target

GPU = Target("cuda -arch=sm_90")


def tiled_product(own=4, width=4, dtype="float32", size=64):
    """A product whose threads have `own` rows and `width` neighbouring columns."""
    a, b = (te.placeholder((size, size), dtype, name=n) for n in "AB")
    c = topi.matmul(a, b)
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    i, j = c.op.axis
    i, rows = s[c].split(i, factor=own)
    j, columns = s[c].split(j, factor=width)
    s[c].reorder(i, j, rows, columns)
    s[c].bind(i, te.thread_axis("blockIdx.x"))
    s[c].bind(j, te.thread_axis("threadIdx.x"))
    s[local].compute_at(s[c], j)
    (k,) = s[local].op.reduce_axis
    s[local].reorder(k, *s[local].op.axis)
    return s, [a, b, c], local


def text_of(s, args, target=GPU):
    return kernel_of((s, args), target).source


def test_loops_over_private_arrays_are_unrolled_by_the_compiler():
    lines = [line.strip() for line in text_of(*tiled_product()[:2]).splitlines()]
    loops = [i for i, line in enumerate(lines) if line.startswith("for (int") and "_c" in line]
    assert len(loops) == 4
    assert all(lines[i - 1] == "#pragma unroll" for i in loops)
    (k,) = [i for i, line in enumerate(lines) if line.startswith("for (int k")]
    assert lines[k - 1] != "#pragma unroll"


def test_more_than_there_are_registers_for_is_not_unrolled():
    lines = text_of(*tiled_product(64, 64)[:2]).splitlines()
    (rows,) = [i for i, line in enumerate(lines) if "for (int i_c = 0" in line]
    assert "#pragma unroll" not in lines[rows - 1]


def test_a_cpu_is_told_nothing_of_it():
    a, b = (te.placeholder((64, 64), name=n) for n in "AB")
    c = topi.matmul(a, b)
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    s[local].compute_at(s[c], c.op.axis[0])
    assert "unroll" not in text_of(s, [a, b, c], Target("c"))


@pytest.mark.parametrize(("width", "vector"), [(4, "float4"), (8, "float4"), (2, "float2")])
def test_neighbouring_results_are_written_at_once(width, vector):
    text = text_of(*tiled_product(width=width)[:2])
    assert f"*({vector}*)(T_matmul_NN + " in text
    assert "T_matmul_NN[" not in text


def test_results_that_begin_between_vectors_are_written_one_by_one():
    assert "T_matmul_NN[" in text_of(*tiled_product(width=3, size=63)[:2])


def test_a_loop_that_reads_what_it_writes_is_left_as_it_is():
    a = te.placeholder((64, 8), name="A")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((64, 8), lambda i, j: te.sum(a[i, j] * k.var.astype("float32"), axis=k))
    s = te.create_schedule(c.op)
    s[c].bind(c.op.axis[0], te.thread_axis("threadIdx.x"))
    s[c].reorder(k, c.op.axis[1])
    assert re.search(r"compute\[.*j\] \+= ", text_of(s, [a, c]))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_mark_for_tensor_cores_on_other_loops_is_refused(dtype):
    s, args, local = tiled_product(dtype=dtype)
    _, inner = s[local].split(s[local].op.reduce_axis[0], factor=16)
    s[local].pragma(inner, "tensor_core", 1)
    with pytest.raises(LoweringError, match=r"tensor_core: T_matmul_NN: expected 8 threads"):
        text_of(s, args)
