"""Numbers as arguments of what tensor expressions make, and sizes that do not fit."""

import ctypes

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import KernelError, LoweringError
from autotune.measure import MeasureErrorNo
from autotune.measure.build.realise import realise
from autotune.runtime.host.executable import CpuExecutable
from autotune.tvm import autotvm, te
from tests.compat.test_symbolic_shapes import CPU, GPU, bind, check, copied, floats, vector_add

# Numbers as arguments.


@pytest.mark.parametrize("target", [CPU, GPU])
def test_numbers_are_passed_by_value(target):
    n, shift, scale = te.var("n"), te.var("shift"), te.var("scale", "float32")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * scale + (i + shift), name="B")
    s = te.create_schedule(b.op)
    if target == GPU:
        bind(s, b, *s[b].split(b.op.axis[0], factor=32))
    function = tvm.build(s, [n, shift, a, scale, b], target)
    x = floats(45)
    for number in (45, np.int32(45), np.array(45), ctypes.c_int(45).value):
        out = tvm.nd.empty((45,))
        function(number, -3, tvm.nd.array(x), 0.5, out)
        np.testing.assert_allclose(out.numpy(), x * 0.5 + np.arange(45) - 3, rtol=1e-6)
    with pytest.raises(KernelError, match=r"dimension 0 of 'A': expected n = 44, as an argument"):
        function(44, -3, tvm.nd.array(x), 0.5, tvm.nd.empty((45,)))
    with pytest.raises(KernelError, match="argument 'shift'"):
        function(45, 2.5, tvm.nd.array(x), 0.5, tvm.nd.empty((45,)))


def test_extents_are_computed_from_sizes():
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n // 2 + 1, 2 * n), lambda i, j: a[te.min(i, n - 1)] * j, name="B")
    function = tvm.build(te.create_schedule(b.op), [a, b])
    x = floats(7)
    expected = x[:4, None] * np.arange(14, dtype="float32")
    check(function, expected, [x])
    with pytest.raises(KernelError, match=r"'B': expected shape \(4, 14\), got \(4, 13\)"):
        function(tvm.nd.array(x), tvm.nd.empty((4, 13)))


def test_arrays_that_disagree_about_a_size_are_refused():
    a, b, c = vector_add()
    function = tvm.build(te.create_schedule(c.op), [a, b, c], "llvm", name="add")
    four, five = tvm.nd.empty((4,)), tvm.nd.empty((5,))
    words = "add: dimension 0 of 'B': expected n = 4, as dimension 0 of 'A' says, got 5"
    with pytest.raises(KernelError, match=words):
        function(four, five, four)
    with pytest.raises(
        KernelError, match=r"add: argument 'B': expected an array of 1 dim.* got s"
    ):
        function(four, tvm.nd.empty((4, 1)), four)
    with pytest.raises(KernelError, match=r"add: expected 3 arguments \(A, B, C\), got 2"):
        function(four, four)
    with pytest.raises(KernelError, match="add: argument 'A': expected dtype float32, got int8"):
        function(tvm.nd.empty((4,), "int8"), four, four)
    with pytest.raises(KernelError, match="its sizes are open"):
        _ = function.executable


def test_an_array_too_large_for_32_bit_indices_is_refused():
    m, n = te.var("m"), te.var("n")
    a, b = copied((m, n))
    function = tvm.build(te.create_schedule(b.op), [a, b])
    huge = np.lib.stride_tricks.as_strided(np.zeros(1, "float32"), (2**16, 2**16), (0, 0))
    with pytest.raises(KernelError, match=r"'A' would have the shape \(65536, 65536\)"):
        function(huge, huge)


def test_a_lowered_function_is_found_by_its_name():
    a, b, c = vector_add()
    s = te.create_schedule(c.op)
    lowered = tvm.lower(s, [a, b, c])
    assert lowered["main"] is lowered
    named = tvm.lower(s, [a, b, c], name="add")
    assert "fn add(A: in float32[n]" in str(named["add"])
    with pytest.raises(LoweringError, match="lowering made one function, 'add', not 'main'"):
        named["main"]


def test_a_template_with_open_sizes_is_no_trial():
    @autotvm.template("compat/open_sizes")
    def template():
        autotvm.get_config().define_knob("k", [1])
        autotvm.get_config().add_flop(1)
        a, b, c = vector_add()
        return te.create_schedule(c.op), [a, b, c]

    task = autotvm.create("compat/open_sizes", (), "llvm")
    config = task.config_space.get(0)
    made = realise(autotvm.MeasureInput(task.target, task, config))
    assert made.error_no == MeasureErrorNo.INSTANTIATION_ERROR
    assert "give n values: tuning needs constant shapes" in made.error_msg


def test_a_kernel_with_open_sizes_is_not_loaded():
    a, b, c = vector_add()
    kernel = tvm.build(te.create_schedule(c.op), [a, b, c]).kernel
    with pytest.raises(KernelError, match="its sizes n are open"):
        CpuExecutable("nowhere.so", kernel, tvm.cpu())
    assert kernel.at({"n": 5}).args[0].shape == (5,)
    with pytest.raises(KernelError, match=r"'A' would have the shape \(0,\) with n = 0"):
        kernel.at({"n": 0})


def test_names_that_clash_are_told_apart():
    first, second = te.var("n"), te.var("n")
    a = te.placeholder((first, second), name="n")
    b = te.compute((first, second), lambda i, j: a[i, j] * 2.0, name="int")
    for target in (CPU, GPU):
        s = te.create_schedule(b.op)
        if target == GPU:
            bind(s, b, b.op.axis[0], s[b].split(b.op.axis[1], factor=4)[1])
        function = tvm.build(s, [a, b], target)
        x = floats(3, 5)
        check(function, 2 * x, [x])


@pytest.mark.many_cases
@pytest.mark.parametrize("target", [CPU, GPU])
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "bool", "float16", "float64"])
def test_numbers_of_any_dtype_are_passed(target, dtype):
    number = te.var("number", dtype)
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + number.astype("float32"), name="B")
    s = te.create_schedule(b.op)
    if target == GPU:
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
    function = tvm.build(s, [number, a, b], target)
    x = floats(8)
    check(function, x + np.float32(1), [1, x])


def test_a_bfloat16_by_value_is_refused_where_there_is_no_such_type():
    number = te.var("number", "bfloat16")
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + number.astype("float32"), name="B")
    with pytest.raises(
        LoweringError, match="'number' of dtype bfloat16 cannot be passed by value"
    ):
        tvm.build(te.create_schedule(b.op), [number, a, b], CPU)


def test_more_blocks_than_there_can_be_are_refused():
    n = te.var("n")
    a, b = copied((n,))
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.y"))
    function = tvm.build(s, [a, b], GPU)
    x = floats(70_000)
    with pytest.raises(KernelError, match=r"grid\.y is 70000"):
        function(x, np.empty_like(x))
