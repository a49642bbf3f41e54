"""Calls on the CPU: by the launcher in C, and by Python alone; both say and do the same."""

import copy
import gc
import inspect
import pickle
import sys
import weakref

import numpy as np
import pytest

import autotune
from autotune.errors import KernelError
from autotune.kernel import SourceKernel, arg, call, workspace
from autotune.runtime import array
from autotune.runtime.call import native
from autotune.runtime.call.overlap import require_results_apart

N = 64
AXPY = SourceKernel(
    "axpy",
    "void axpy(float s, const float *x, float *y, int n) {\n"
    "  for (int i = 0; i < n; i++) y[i] += s * x[i]; }",
    [
        arg("s", (), "float32"),
        arg("x", (N,)),
        arg("y", (N,), role="inout"),
        arg("n", (), "int32"),
    ],
)


@pytest.fixture
def x():
    return np.arange(N, dtype="float32")


def zeros(shape=(N,), dtype="float32"):
    return np.zeros(shape, dtype)


def test_this_machine_has_the_launcher():
    assert native.launcher() is not None, native.why_not()


def test_a_call_is_made_again_and_again(build, x):
    axpy, y = build(AXPY), zeros()
    for turn in range(1, 5):
        assert axpy(2.0, x, y, N) is None
        np.testing.assert_array_equal(y, 2 * turn * x)


def test_only_the_first_call_of_its_kind_goes_through_python(x, monkeypatch):
    axpy = autotune.build(AXPY, target="c")
    axpy(1.0, x, zeros(), N)
    from autotune.runtime.call import dispatch

    monkeypatch.setattr(dispatch, "bind", None)
    for values in (x, array(x)):
        axpy(1, values, zeros(), N)
        axpy(np.float32(1), values, zeros(), np.int64(N))
    with pytest.raises(TypeError):
        axpy(1.0, x[::-1], zeros(), N)


def test_a_call_of_the_module_is_the_one_in_c_and_still_described_as_in_python(x):
    axpy = autotune.build(AXPY, target="c")
    axpy(1.0, x, zeros(), N)
    assert type(type(axpy).__call__).__name__ == "Forward"
    assert str(inspect.signature(axpy)).startswith("(*args: 'object', stream: 'object' = None)")
    assert "Run once on these arrays" in type(axpy).__call__.__doc__
    y = zeros()
    axpy.__call__(1.0, x, y, N)
    type(axpy).__call__(axpy, 1.0, x, y, N, stream=None)
    np.testing.assert_array_equal(y, 2 * x)
    with pytest.raises(TypeError, match="unexpected keyword argument 'streams'"):
        axpy(1.0, x, y, N, streams=None)
    with pytest.raises(TypeError):
        type(axpy).__call__()
    with pytest.raises((TypeError, AttributeError)):
        type(axpy).__call__(3)


def test_arrays_of_ours_are_compared_anew_where_others_come(x):
    axpy, y = autotune.build(AXPY, target="c"), array(zeros())
    first, second = array(x), array(2 * x)
    axpy(1.0, first, y, N)
    for values in (first, second, x, first):
        axpy(1.0, values, y, N)
    np.testing.assert_array_equal(y.numpy(), 6 * x)
    for wrong, message in (
        (array(x[:9]), r"shape \(64,\), got \(9,\)"),
        (array(x.astype("float64")), "dtype float32, got float64"),
        (array(x.reshape(8, 8)), r"shape \(64,\), got \(8, 8\)"),
    ):
        with pytest.raises(KernelError, match=message):
            axpy(1.0, wrong, y, N)


TWO = SourceKernel(
    "two",
    "void two(const float *x, float *y, float *z) {\n"
    "  for (int i = 0; i < 64; i++) { y[i] = x[i] + 1; z[i] = x[i] + 2; } }",
    [arg("x", (N,)), arg("y", (N,), role="out"), arg("z", (N,), role="out")],
)


@pytest.mark.parametrize("shift", [4, 32, 60, -4, -60])
def test_a_result_that_lies_partly_in_another_argument_is_refused(build, shift):
    axpy, memory = build(AXPY), zeros((3 * N,))
    x, y = memory[N : 2 * N], memory[N + shift : 2 * N + shift]
    for _ in range(2):
        with pytest.raises(KernelError, match="axpy: argument 'y', which is written, lies in the"):
            axpy(1.0, x, y, N)
        axpy(1.0, x, zeros(), N)
    assert not memory.any()


def test_what_a_call_refuses_a_time_evaluator_refuses(x):
    two, memory, y = autotune.build(TWO, target="c"), zeros((3 * N,)), zeros()
    timed = two.time_evaluator("two", number=1)
    with pytest.raises(KernelError, match=r"argument 'y', which is written, .* argument 'z'"):
        timed(x, y, y)
    with pytest.raises(KernelError, match=r"argument 'y', which is written, .* argument 'x'"):
        timed(memory[:N], memory[4 : 4 + N], y)
    with pytest.raises(KernelError, match=r"argument 'y', which is written, .* argument 'z'"):
        timed(x, memory[: 2 * N : 2], memory[2 : 2 * N + 2 : 2])
    assert timed(x, y, x.copy()).mean > 0


@pytest.mark.parametrize("shift", [N, -N])
def test_arrays_that_touch_each_other_are_no_overlap(build, shift):
    axpy, memory = build(AXPY), np.ones(3 * N, "float32")
    x, y = memory[N : 2 * N], memory[N + shift : 2 * N + shift]
    for turn in range(1, 4):
        axpy(1.0, x, y, N)
        np.testing.assert_array_equal(y, 1 + turn)


def test_the_whole_of_an_array_may_be_an_input_and_the_result_but_not_two_results(build, x):
    two, y, want = build(TWO), zeros(), x + 2
    for _ in range(2):
        given = x.copy()
        two(given, y, given)
        np.testing.assert_array_equal(given, want)
        with pytest.raises(KernelError, match=r"argument 'y', which is written, .* argument 'z'"):
            two(x, y, y)
    np.testing.assert_array_equal(y, x + 1)


@pytest.mark.parametrize("shift", [1, 2, N - 1])
def test_results_that_are_copied_to_one_place_are_refused(build, x, shift):
    torch = pytest.importorskip("torch")
    two, memory = build(TWO), zeros((3 * N,))
    for whose in (np.asarray, torch.from_numpy):
        y, z = memory[1 : N + 1], memory[1 + shift : N + 1 + shift]
        with pytest.raises(KernelError, match=r"argument 'y', which is written, .* argument 'z'"):
            two(x, whose(y), whose(z))


def test_numpy_is_not_asked_for_what_lies_on_a_device(x):
    class OnDevice:
        def __dlpack_device__(self):
            return 2, 0  # CUDA's first

        def __dlpack__(self, **_):
            raise AssertionError("memory of a device was lent to the host")

    require_results_apart(TWO, [x, OnDevice(), OnDevice()])


def test_results_may_take_turns_in_memory(build, x):
    two, memory = build(TWO), zeros((2 * N,))
    two(x, memory[::2], memory[1::2])
    np.testing.assert_array_equal(memory, np.stack([x + 1, x + 2], 1).ravel())


MISTAKES = [
    (lambda x, y: (1.0, x, y), {}, r"axpy: expected 4 arguments \(s, x, y, n\), got 3"),
    (lambda x, y: (1.0, x[:9], y, N), {}, r"'x': expected shape \(64,\), got \(9,\)"),
    (lambda x, y: (1.0, x.astype("f8"), y, N), {}, "'x': expected dtype float32, got float64"),
    (lambda x, y: (1.0, x.astype(">f4"), y, N), {}, "'x': .*dtype"),
    (lambda x, y: (1.0, x, None, N), {}, "'y': expected an array .* got NoneType"),
    (lambda x, y: (1.0, x, y, 2**31), {}, "'n': expected int32 .* got 2147483648"),
    (lambda x, y: (1.0, x, y, -(2**31) - 1), {}, "'n': expected int32"),
    (lambda x, y: (1.0, x, y, 2**70), {}, "'n': expected int32"),
    (lambda x, y: (1.0, x, y, 1.5), {}, r"'n': expected int32, got 1.5"),
    (lambda x, y: ("1", x, y, N), {}, "'s': expected one number"),
    (lambda x, y: (1e39, x, y, N), {}, "'s': expected a number that fits float32"),
    (lambda x, y: (1.0, x, y, N), {"stream": 7}, "axpy: stream must be None: cpu:0 has no"),
]


@pytest.mark.parametrize(("args", "options", "message"), MISTAKES)
def test_a_mistake_is_named_on_the_first_call_and_on_later_ones(build, x, args, options, message):
    axpy, y = build(AXPY), zeros()
    for _ in range(2):
        with pytest.raises(KernelError, match=message):
            axpy(*args(x, y), **options)
        axpy(1.0, x, y, N)
    np.testing.assert_array_equal(y, 2 * x)


def test_what_cannot_be_written_is_refused_later_too(build, x):
    axpy, y = build(AXPY), zeros()
    axpy(1.0, x, y, N)
    y.flags.writeable = False
    with pytest.raises(KernelError, match="'y': it is written by the kernel"):
        axpy(1.0, x, y, N)


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan")])
def test_what_floats_hold_besides_numbers_is_passed(build, number):
    axpy = build(AXPY)
    for _ in range(2):
        y = zeros()
        axpy(number, np.ones(N, "float32"), y, N)
        np.testing.assert_array_equal(y, number)


@pytest.mark.parametrize("count", [64, 65, 200])
def test_any_number_of_arguments_is_taken(build, count):
    names = [f"s{i}" for i in range(count - 1)]
    taken = ", ".join(f"double {name}" for name in names)
    text = f"void f({taken}, double *y) {{ y[0] = {' + '.join(names)}; }}"
    args = [*(arg(name, (), "float64") for name in names), arg("y", (1,), "float64", role="out")]
    f, y = build(SourceKernel("f", text, args)), zeros(1, "float64")
    for shift in (0, 1):
        f(*range(shift, count - 1 + shift), y)
        assert y[0] == sum(range(shift, count - 1 + shift))


def test_any_number_of_workspaces_is_made(build, x):
    spaces = [workspace(f"w{i}", (N,)) for i in range(70)]
    lists = [("x", "w0"), *((f"w{i}", f"w{i + 1}") for i in range(69)), ("w69", "y")]
    text = "void f(const float *a, float *b) { for (int i = 0; i < 64; i++) b[i] = a[i] + 1; }"
    kernel = SourceKernel(
        "chain", text, [arg("x", (N,)), arg("y", (N,), role="out")],
        calls=[call("f", each) for each in lists], workspace=spaces,
    )  # fmt: skip
    chain, y = build(kernel), zeros()
    for _ in range(2):
        chain(x, y)
        np.testing.assert_array_equal(y, x + 71)


def test_a_copy_is_the_function_itself_and_a_pickled_one_is_made_again(build, x):
    axpy, y = build(AXPY), zeros()
    axpy(1.0, x, y, N)
    assert copy.deepcopy({"held": axpy})["held"] is axpy is copy.copy(axpy)
    again = pickle.loads(pickle.dumps(axpy))
    for _ in range(2):
        again(1.0, x, y, N)
    np.testing.assert_array_equal(y, 3 * x)
    assert (again.name, again.resources) == (axpy.name, axpy.resources)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "bfloat16", "float64"])
def test_numbers_of_every_width_arrive(build, dtype):
    word = {
        "int8": "signed char",
        "uint8": "unsigned char",
        "int64": "long long",
        "float16": "_Float16",
        "bfloat16": "unsigned short",
        "float64": "double",
    }[dtype]
    text = f"void f({word} a, {word} *y) {{ y[0] = a; }}"
    f = build(SourceKernel("f", text, [arg("a", (), dtype), arg("y", (1,), dtype, role="out")]))
    least, most = {"int8": (-128, 127), "uint8": (0, 255), "int64": (-(2**63), 2**63 - 1)}.get(
        dtype, (-1.5, 2.5)
    )
    for value in (least, most, least):
        y = autotune.runtime.empty((1,), dtype)
        f(value, y)
        assert y.numpy()[0] == value
        if "int" in dtype:
            with pytest.raises(KernelError, match=f"'a': expected {dtype}"):
                f(most + 1, y)


def test_what_is_not_contiguous_or_not_aligned_is_copied_and_written_back(build, x):
    axpy = build(AXPY)
    axpy(1.0, x, zeros(), N)
    wide, raw = zeros((N, 2)), zeros(N * 4 + 4, "uint8")
    for y in (wide[:, 0], raw[4:].view("float32")):
        axpy(1.0, x[::-1], y, N)
        np.testing.assert_array_equal(y, x[::-1])
    assert (wide[:, 1] == 0).all()


def test_calls_keep_no_references(build, x):
    axpy, y = build(AXPY), zeros()
    axpy(1.0, x, y, N)
    ours = array(x)
    counted = (x, y, ours, ours.shape, ours.device, axpy)
    before = [sys.getrefcount(one) for one in counted]
    for _ in range(100):
        axpy(1.0, x, y, N)
        axpy(0.0, ours, y, N)
        with pytest.raises(KernelError):
            axpy(0.0, x[:3], y, N)
    gc.collect()
    after = [sys.getrefcount(one) for one in counted]
    assert all(b <= a + 2 for a, b in zip(before, after, strict=True)), (before, after)


def test_a_function_that_is_gone_gives_its_library_back(build, x):
    axpy = build(AXPY)
    axpy(1.0, x, zeros(), N)
    gone = weakref.ref(axpy)
    del axpy
    gc.collect()
    assert gone() is None


def test_a_function_of_open_sizes_is_called_with_many(build):
    from autotune import te

    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] * 2, name="b")
    double = build_te(te.create_schedule(b.op), [a, b], build)
    for turn in range(2):
        for size in (*range(1, 14), 5):
            x, y = np.arange(size, dtype="float32"), zeros(size)
            double(x, y)
            np.testing.assert_array_equal(y, 2 * x)
        with pytest.raises(KernelError, match=r"expected n = 3|expected shape"):
            double(zeros(3), zeros(4 + turn))


def build_te(schedule, tensors, build):
    return autotune.build(schedule, tensors, target="c")


def test_without_headers_or_compiler_calls_go_through_python(monkeypatch, x):
    from autotune.errors import CompilerMissing

    def refuse(*args, **options):
        raise CompilerMissing("no C compiler was found")

    monkeypatch.setattr(native, "_found", [])
    monkeypatch.setattr(native, "compile_kernel", refuse)
    axpy, y = autotune.build(AXPY, target="c"), zeros()
    axpy(1.0, x, y, N)
    np.testing.assert_array_equal(y, x)
    assert native.why_not() == "no C compiler was found"
