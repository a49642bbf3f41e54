"""Functions whose extents are known only when they are called, on a GPU."""

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import KernelError
from autotune.tvm import te
from tests.compat.test_symbolic_shapes import bind, chain, check, floats, row_sums, vector_add


def on_cuda(s, args):
    return tvm.build(s, args, "cuda")


def test_vectors_of_any_length_are_added():
    a, b, c = vector_add()
    s = te.create_schedule(c.op)
    bind(s, c, *s[c].split(c.op.axis[0], factor=256))
    function = on_cuda(s, [a, b, c])
    for n in (1, 255, 256, 257, 100_000, 1, 255):
        x, y = floats(n), floats(n)
        check(function, x + y, [x, y])
    x = tvm.nd.array(floats(1 << 20), tvm.cuda())
    out = tvm.nd.empty((1 << 20,), device=tvm.cuda())
    timed = function.time_evaluator(function.entry_name, tvm.cuda(), number=10)(x, x, out)
    assert timed.mean > 0
    np.testing.assert_array_equal(out.numpy(), 2 * x.numpy())


def test_a_stage_between_kernels_grows_with_the_sizes():
    a, b, c = chain()
    s = te.create_schedule(c.op)
    for tensor in (b, c):
        bind(s, tensor, *s[tensor].split(tensor.op.axis[0], factor=64))
    function = on_cuda(s, [a, c])
    for n in (5, 1000, 64):
        x = floats(n)
        check(function, (x + 1) * 2, [x])


def test_threads_sum_rows_of_any_length():
    a, b = row_sums()
    s = te.create_schedule(b.op)
    _, ki = s[b].split(b.op.reduce_axis[0], factor=32)
    factored = s.rfactor(b, ki)
    rows, row = s[b].split(s[b].op.axis[0], factor=4)
    s[b].bind(rows, te.thread_axis("blockIdx.x"))
    s[b].bind(row, te.thread_axis("threadIdx.y"))
    s[b].bind(s[b].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    s[factored].compute_at(s[b], s[b].op.reduce_axis[0])
    function = on_cuda(s, [a, b])
    for shape in ((1, 1), (33, 17), (100, 1000)):
        x = floats(*shape)
        out = tvm.nd.empty((shape[0],))
        function(tvm.nd.array(x), out)
        np.testing.assert_allclose(out.numpy(), x.sum(1), rtol=1e-5)


def test_numbers_are_passed_to_a_gpu_by_value():
    n, scale = te.var("n"), te.var("scale", "float32")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * scale, name="B")
    s = te.create_schedule(b.op)
    bind(s, b, *s[b].split(b.op.axis[0], factor=32))
    function = on_cuda(s, [n, scale, a, b])
    x = floats(1000)
    check(function, x * np.float32(0.25), [1000, 0.25, x])


def test_more_blocks_than_there_can_be_are_refused():
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.y"))
    s[b].bind(b.op.axis[1], te.thread_axis("blockIdx.x"))
    function = on_cuda(s, [a, b])
    x = floats(70_000, 1)
    with pytest.raises(KernelError, match=r"grid\.y is 70000"):
        function(x, np.empty_like(x))
