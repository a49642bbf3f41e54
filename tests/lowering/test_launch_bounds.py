"""The pragma ``min_blocks`` says how many blocks a multiprocessor is to hold."""

import numpy as np
import pytest

import autotune
from autotune import te
from autotune.codegen import kernel_of_schedule
from autotune.errors import LoweringError
from autotune.target import Target
from tests.fuzz.running import Job, run_batch

CUDA = Target("cuda -arch=sm_90")


def doubled(value=2, at="block"):
    """Return a schedule of ``2 * A`` with the pragma at one of its loops, and its tensors."""
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + a[i], name="B")
    s = te.create_schedule(b.op)
    copy = s.cache_read(a, "shared", [b])
    block, thread = s[b].split(b.op.axis[0], 32)
    s[b].bind(block, te.thread_axis("blockIdx.x"))
    s[b].bind(thread, te.thread_axis("threadIdx.x"))
    s[copy].compute_at(s[b], block)
    inner = s[copy].op.axis[0]
    s[copy].bind(inner, te.thread_axis("threadIdx.x"))
    stage, axis = {"block": (b, block), "thread": (b, thread), "copy": (copy, inner)}[at]
    s[stage].pragma(axis, "min_blocks", value)
    return s, [a, b]


@pytest.mark.parametrize("at", ["block", "thread", "copy"])
def test_the_compiler_is_told_how_many_blocks_are_asked_for(at, tmp_path):
    schedule, tensors = doubled(at=at)
    kernel = kernel_of_schedule(schedule, tensors, CUDA, "doubled")
    assert "__launch_bounds__(32, 2)" in kernel.source
    values = np.arange(64, dtype="float32")
    ((found,),) = run_batch([Job(kernel, [values], 0)], tmp_path)
    np.testing.assert_array_equal(found, 2 * values)


def test_loops_of_a_kernel_show_it():
    schedule, tensors = doubled(3)
    assert "block=(32, 1, 1) min_blocks=3:" in str(autotune.lower(schedule, tensors))


def test_of_several_numbers_the_largest_counts():
    schedule, tensors = doubled(2)
    stage = schedule[tensors[-1]]
    stage.pragma(stage.leaf_iter_vars[-1], "min_blocks", 4)
    text = kernel_of_schedule(schedule, tensors, CUDA, "doubled").source
    assert "__launch_bounds__(32, 4)" in text


@pytest.mark.parametrize("value", [0, None])
def test_none_says_nothing(value):
    schedule, tensors = doubled(value)
    assert "__launch_bounds__(32)" in kernel_of_schedule(schedule, tensors, CUDA, "k").source
    assert "min_blocks" not in str(autotune.lower(schedule, tensors))


def test_other_kernels_of_a_function_are_not_bound():
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + a[i], name="B")
    c = te.compute((64,), lambda i: b[i] * b[i], name="C")
    s = te.create_schedule(c.op)
    for tensor, lanes in ((b, 32), (c, 16)):
        block, thread = s[tensor].split(tensor.op.axis[0], lanes)
        s[tensor].bind(block, te.thread_axis("blockIdx.x"))
        s[tensor].bind(thread, te.thread_axis("threadIdx.x"))
    s[b].pragma(s[b].leaf_iter_vars[0], "min_blocks", 5)
    text = kernel_of_schedule(s, [a, c], CUDA, "k").source
    assert "__launch_bounds__(32, 5)" in text
    assert "__launch_bounds__(16)" in text


@pytest.mark.parametrize("value", [-1, "two", 33, 2**32 + 2])
def test_what_is_no_number_of_blocks_is_refused(value):
    schedule, tensors = doubled(value)
    with pytest.raises(LoweringError, match="pragma min_blocks of B: expected how many blocks"):
        autotune.lower(schedule, tensors)
