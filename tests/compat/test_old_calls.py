"""Calls that scripts of AutoTVM make, in the forms that TVM took between 0.6 and 0.19."""

import ml_dtypes
import numpy as np
import pytest

import autotune
from autotune import tvm
from autotune.errors import (
    AutotuneError,
    ExpressionError,
    GraphError,
    KernelError,
    LoweringError,
    ScheduleError,
    TargetError,
)
from autotune.task import DispatchContext
from autotune.tvm import autotvm, relay, te, topi
from autotune.tvm.autotvm.tuner.model_based_tuner import knob2point, point2knob
from autotune.tvm.autotvm.util import sample_ints


def added(n=64):
    """A schedule of C = A + B, and its tensors."""
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    return te.create_schedule(c.op), [a, b, c]


def check_added(function, n=64):
    x = np.arange(n, dtype="float32")
    out = tvm.nd.empty((n,))
    function(tvm.nd.array(x), tvm.nd.array(2 * x), out)
    np.testing.assert_array_equal(out.numpy(), 3 * x)


def evaluated(tensor, *pairs):
    """The values of a tensor, built for the default target."""
    function = tvm.build(te.create_schedule(tensor.op), [*[t for t, _ in pairs], tensor])
    out = tvm.nd.empty(tensor.shape, tensor.dtype)
    function(*[tvm.nd.array(value) for _, value in pairs], out)
    return out.numpy()


# Targets and building.


def test_a_target_is_made_by_keywords():
    target = tvm.target.Target(target="cuda -arch=sm_80", host="llvm")
    assert (target.kind, str(target.host.kind)) == ("cuda", "llvm")
    assert tvm.target.Target(target={"kind": "llvm", "host": "c"}).host.kind == "c"
    assert tvm.target.Target(target=target, host="c").host.kind == "c"


def test_without_a_target_tensor_expressions_are_built_for_the_cpu():
    function = tvm.build(*added())
    assert str(function.target.kind) == "llvm"
    check_added(function)
    s, args = added()
    check_added(tvm.build(tvm.lower(s, args)))


def test_a_schedule_with_threads_is_not_built_for_the_cpu_by_mistake():
    s, (a, b, c) = added()
    s[c].bind(s[c].op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(LoweringError, match=r"bound to threadIdx\.x, but the target is a CPU"):
        tvm.build(s, [a, b, c])
    assert tvm.build(tvm.lower(s, [a, b, c])).target.kind == "cuda"


def test_a_hand_written_kernel_still_needs_a_target():
    kernel = autotune.SourceKernel(
        "f", "void f(float* a) {}", [autotune.arg("a", (4,), role="out")]
    )
    with pytest.raises(TargetError, match="no target"):
        tvm.build(kernel)


def test_what_lower_returns_is_built_with_its_arguments():
    s, args = added()
    lowered = tvm.lower(s, args, simple_mode=True, name="plus")
    check_added(tvm.build(lowered, args, "llvm"))
    check_added(tvm.build(lowered, args, target="c", target_host="llvm"))
    with pytest.raises(KernelError, match="'plus' was lowered with the arguments A: float32"):
        tvm.build(lowered, args[:2], "llvm")
    with pytest.raises(KernelError, match="'plus' was lowered with the arguments"):
        tvm.build(lowered, added(32)[1], "llvm")


@pytest.mark.parametrize("target", ["llvm", "cuda -emulate"])
def test_an_argument_may_be_unused(target):
    s, (a, b, c) = added()
    spare = te.placeholder((3,), "int32", name="spare")
    if "cuda" in target:
        s[c].bind(s[c].op.axis[0], te.thread_axis("threadIdx.x"))
    function = tvm.build(s, [a, spare, b, c], target)
    x, out = np.arange(64, dtype="float32"), tvm.nd.empty((64,))
    function(tvm.nd.array(x), tvm.nd.empty((3,), "int32"), tvm.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), 2 * x)


def test_an_unused_argument_is_an_input_that_is_given_once():
    s, (a, b, c) = added()
    spare = te.placeholder((3,), name="spare")
    with pytest.raises(LoweringError, match="given twice"):
        tvm.lower(s, [a, b, spare, spare, c])
    stranger = te.compute((3,), lambda i: spare[i], name="stranger")
    with pytest.raises(ScheduleError, match="'stranger' is no tensor"):
        tvm.lower(s, [a, b, c, stranger])


# Expressions.


def test_whole_floats_are_extents_and_factors():
    a = te.placeholder((1024 / 32, np.float64(4)), name="A")
    k = te.reduce_axis((0, 8 / 2), name="k")
    b = te.compute((1024 / 32,), lambda i: te.sum(a[i, k], axis=k), name="B")
    assert a.shape == (32, 4)
    assert b.shape == (32,)
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], factor=16 / 2)
    s[b].split(outer, nparts=4.0)
    value = np.ones((32, 4), "float32")
    function = tvm.build(s, [a, b])
    out = tvm.nd.empty((32,))
    function(tvm.nd.array(value), out)
    np.testing.assert_array_equal(out.numpy(), value.sum(1))


@pytest.mark.parametrize("extent", [2.5, float("inf"), float("nan"), "4", None])
def test_other_floats_are_not(extent):
    with pytest.raises(ExpressionError, match="every extent of the shape must be an integer"):
        te.placeholder((extent,))
    with pytest.raises(ExpressionError, match="reduce_axis: expected an extent"):
        te.reduce_axis((0, extent))
    s, (_, _, c) = added()
    with pytest.raises(ScheduleError, match="factor"):
        s[c].split(c.op.axis[0], factor=extent)


def test_a_reduction_axis_of_more_than_32_bits_is_refused():
    with pytest.raises(ExpressionError, match="32-bit"):
        te.reduce_axis((0, 2**32 + 5))


def test_two_axes_of_a_reduction_may_have_one_name():
    a = te.placeholder((4, 4), name="A")
    first, second = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 4), name="k")
    total = te.compute((1,), lambda i: te.sum(a[first, second] * (first + 1), [first, second]))
    values = np.arange(16, dtype="float32").reshape(4, 4)
    expected = (values * np.arange(1, 5)[:, None]).sum()
    np.testing.assert_array_equal(evaluated(total, (a, values)), [expected])


def test_a_loop_may_be_marked_again():
    for primitive in ("vectorize", "parallel", "unroll"):
        s, (a, b, c) = added(8)
        for _ in range(2):
            getattr(s[c], primitive)(c.op.axis[0])
        assert len(s.steps) == 1
        check_added(tvm.build(s, [a, b, c]), 8)
    s, (a, b, c) = added(8)
    s[c].vectorize(c.op.axis[0])
    s[c].parallel(c.op.axis[0])
    assert "parallel" in str(tvm.lower(s, [a, b, c]))
    s[c].unroll(c.op.axis[0])
    assert "parallel" not in str(tvm.lower(s, [a, b, c]))


def test_a_bound_loop_is_not_marked_too():
    s, (_, _, c) = added(8)
    s[c].bind(c.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match=r"bound to threadIdx\.x already"):
        s[c].unroll(c.op.axis[0])


def test_constants_are_made_with_the_dtype_in_front():
    made = tvm.tir.FloatImm("float16", 2.5)
    assert (made.value, made.dtype) == (2.5, "float16")
    made = tvm.tir.IntImm("int64", 3)
    assert (made.value, made.dtype) == (3, "int64")
    assert tvm.tir.FloatImm(2.5).dtype == "float32"
    assert tvm.tir.IntImm(3).dtype == "int32"


@pytest.mark.parametrize(
    ("a", "b", "met"),
    [("uint32", "int8", "uint32"), ("int8", "uint8", "uint8"), ("int64", "uint8", "int64")],
)
def test_signed_and_unsigned_integers_meet_as_in_c(a, b, met):
    x, y = te.placeholder((4,), a), te.placeholder((4,), b)
    assert (x[0] + y[0]).dtype == met
    assert topi.add(x, y).dtype == met
    left, right = np.array([0, 1, 2, 100], a), np.array([1, 2, 3, 100], b)
    expected = left.astype(met) + right.astype(met)
    np.testing.assert_array_equal(evaluated(topi.add(x, y), (x, left), (y, right)), expected)


@pytest.mark.parametrize(
    ("short", "dtype"), [("float", "float32"), ("int", "int32"), ("uint", "uint32")]
)
def test_a_dtype_without_a_width_has_32_bits(short, dtype):
    assert te.placeholder((4,), short).dtype == dtype
    assert te.var("v", short).dtype == dtype
    assert te.const(1, short).dtype == dtype
    assert te.placeholder((4,), "int8")[0].astype(short).dtype == dtype
    assert te.placeholder((4,), "int8").astype(short).dtype == dtype
    assert tvm.nd.empty((4,), short).dtype == dtype


# Operators.


def test_matmul_takes_whether_its_operands_are_transposed():
    x, y = np.random.default_rng(0).random((2, 6, 4)).astype("float32")
    a, b = te.placeholder(x.shape, name="A"), te.placeholder(y.shape, name="B")
    got = evaluated(topi.matmul(a, b, True, False), (a, x), (b, y))
    np.testing.assert_allclose(got, x.T @ y, rtol=1e-6)
    got = evaluated(topi.matmul(a, b, transp_b=True), (a, x), (b, y))
    np.testing.assert_allclose(got, x @ y.T, rtol=1e-6)


SLICED = np.arange(40, dtype="float32").reshape(5, 8)


@pytest.mark.parametrize(
    ("args", "options", "expected"),
    [
        (([0, 1], [4, 3], [1, 1], "end"), {}, SLICED[0:4, 1:3]),
        (([0, 1], [4, 3], [1, 1], "size"), {}, SLICED[0:4, 1:4]),
        (([0, 1], [4, 3]), {"slice_mode": "size"}, SLICED[0:4, 1:4]),
        (([1, -3], [-1, 2]), {"slice_mode": "size"}, SLICED[1:, -3:-1]),
        (([1, -3], [-1, 3]), {"slice_mode": "size"}, SLICED[1:, -3:]),
        (([2], [7], [2], [1]), {}, SLICED[:, 2:7:2]),
        (([2, 1], [7, 3], None, [-1, 0], "end"), {}, SLICED[1:3, 2:7]),
        (([4, 6], [0, 1], [-1, -2]), {}, SLICED[4:0:-1, 6:1:-2]),
    ],
)
def test_slices_are_taken_by_end_by_size_and_of_named_axes(args, options, expected):
    a = te.placeholder(SLICED.shape, name="A")
    got = evaluated(topi.strided_slice(a, *args, **options), (a, SLICED))
    np.testing.assert_array_equal(got, expected)


def test_a_slice_of_nothing_and_an_unknown_mode_are_refused():
    a = te.placeholder((5, 8), name="A")
    with pytest.raises(ExpressionError, match="nothing is left of A"):
        topi.strided_slice(a, [3], [2])
    with pytest.raises(
        ExpressionError, match="slice_mode must be one of 'end', 'size', got 'all'"
    ):
        topi.strided_slice(a, [0], [2], slice_mode="all")


def test_a_sum_of_bools_tells_whether_any_is_true():
    values = np.array([[True, False, True], [False, False, False], [True, True, True]])
    a = te.placeholder(values.shape, "bool", name="A")
    total = topi.sum(a, axis=1)
    assert total.dtype == "bool"
    np.testing.assert_array_equal(evaluated(total, (a, values)), values.any(1))


# Errors, devices and arrays.


def test_a_tvm_error_is_a_runtime_error():
    assert issubclass(tvm.TVMError, RuntimeError)
    assert tvm.error.TVMError is tvm.TVMError is AutotuneError
    with pytest.raises(RuntimeError):
        te.placeholder((2.5,))
    with pytest.raises(ValueError, match="unknown kind"):
        tvm.target.Target("nosuch")
    with pytest.raises(tvm.TVMError):
        tvm.target.Target("nosuch")


def test_a_device_that_tvm_knows_can_be_asked_for():
    assert tvm.device("opencl").exist is False
    assert tvm.device("vulkan", 0).exist is False
    assert tvm.cpu().exist is True


def test_bits_are_copied_into_an_array_of_bfloat16():
    numbers = np.array([1, 2, -3, 0.5], ml_dtypes.bfloat16)
    out = tvm.nd.empty((4,), "bfloat16")
    out.copyfrom(numbers.view("uint16"))
    np.testing.assert_array_equal(out.numpy(), numbers)


# Devices of a tracker.


def test_what_a_script_asks_of_a_tracker_is_done_on_this_host_with_a_warning():
    with pytest.warns(UserWarning, match=r"no tracker: RPCRunner of 'rk3399' uses this host"):
        runner = autotvm.RPCRunner("rk3399", host="127.0.0.1", port=9190, number=5, timeout=4)
    assert isinstance(runner, autotvm.LocalRunner)
    assert (runner.options.timeout_s, runner.options.timing.number) == (4, 5)
    with pytest.warns(UserWarning, match=r"no tracker: request_remote of 'rk3399' uses"):
        remote = autotvm.measure.request_remote("rk3399", "127.0.0.1", 9190, timeout=10000)
    assert str(remote.cpu(0)) == str(tvm.cpu(0))


def test_runners_take_the_check_of_old_versions():
    assert autotvm.LocalRunner(check_correctness=True).options.verify


def test_different_integers_are_drawn_as_own_optimisers_do():
    assert sorted(sample_ints(3, 7, 4)) == [3, 4, 5, 6]


def test_indices_and_positions_in_knobs_are_converted_as_own_tuners_do():
    task = autotune.create("gemm_nn.cpu", (64, 64, 64), "llvm")
    space = task.config_space
    dims = [len(values) for values in space.space_map.values()]
    for index in (0, 5, 1234):
        assert point2knob(index, dims) == list(space.point2knob(index))
        assert knob2point(point2knob(index, dims), dims) == index


def test_tophub_adds_the_records_of_files_to_those_that_ship():
    outside = DispatchContext.current
    with autotvm.tophub.context("cuda"):
        assert DispatchContext.current is outside
    with autotvm.tophub.context("cuda", extra_files=["tests/data/logs/tophub_cuda_v0.10.log"]):
        assert isinstance(DispatchContext.current, autotvm.task.ApplyHistoryBest)


def test_loops_are_printed_by_tvms_order_of_arguments():
    schedule, tensors = added()
    assert str(tvm.lower(schedule, tensors, "axpy", None, True)).startswith("fn axpy(")
    with pytest.raises(LoweringError, match="binds must be None"):
        tvm.lower(schedule, tensors, "main", {tensors[0]: 1})
    built = tvm.build(schedule, tensors, "llvm")
    assert (built.type_key, built.format) == ("library", "")
    known = (built.is_runnable, built.is_dso_exportable, built.is_binary_serializable)
    assert known == (True, True, False)
    assert tvm.runtime.Device.STR2MASK["gpu"] == 2


def test_executors_passes_and_operators_of_relay_have_names():
    x = relay.var("x", shape=(2, 3))
    module = relay.transform.FoldExplicitPadding()(relay.nn.relu(x))
    executor, runtime = relay.backend.Executor("graph"), relay.backend.Runtime("cpp", {"a": 1})
    assert relay.build(module, "llvm", executor=executor, runtime=runtime)
    assert relay.op.get("nn.conv1d") == relay.op.get("nn.conv2d")
    with pytest.raises(GraphError, match="name must be one of"):
        relay.backend.Executor("vm")
