"""Numbers arrive by value, and constants in their variables, on every target that needs no GPU."""

import ml_dtypes
import numpy as np
import pytest

import autotune.driver as driver
from autotune.errors import CompileError, KernelError
from autotune.kernel import SourceKernel, arg, call, constant, workspace
from autotune.kernel.kernel import ITEM_BYTES
from autotune.runtime import TimeOptions, array, load_module
from autotune.runtime.arrays.array import numpy_dtype

TARGETS = ["c", "cuda -emulate"]
# The same loop as a C function and as a CUDA kernel of one block.
HEADS = {
    "c": "#include <stdint.h>\nvoid {name}({params}) {{ for (int i = 0; i < 8; i++) {body} }}\n",
    "cuda": "#include <cuda_bf16.h>\n#include <stdint.h>\n"
    'extern "C" __global__ void {name}({params}) {{ int i = threadIdx.x; {body} }}\n',
}
C_NAMES = {
    "bool": "_Bool", "float16": "_Float16", "bfloat16": "uint16_t", "float32": "float",
    "float64": "double",
}  # fmt: skip
CUDA_NAMES = {
    "bool": "bool", "float16": "__half", "bfloat16": "__nv_bfloat16", "float32": "float",
    "float64": "double",
}  # fmt: skip


def text(target, params, body, name="f"):
    return HEADS[target.split()[0]].format(name=name, params=params, body=body)


def built(target, params, body, args, prelude="", **options):
    kernel = SourceKernel("f", prelude + text(target, params, body), args, block=8, **options)
    return driver.build(kernel, target=target)


AXPY = [
    arg("n", (), "int32", value=6),
    arg("x", (8,)),
    arg("alpha", ()),
    arg("y", (8,), role="inout"),
]


@pytest.fixture(params=TARGETS)
def target(request):
    return request.param


@pytest.fixture
def axpy(target):
    body = "if (i < n) y[i] += alpha * x[i];"
    return built(target, "int n, const float *x, float alpha, float *y", body, AXPY)


@pytest.mark.parametrize("n", [3, np.int64(3), np.uint8(3), np.array(3), array(np.array(3))])
def test_python_numpy_and_our_own_numbers_are_passed_by_value(axpy, n):
    x, y = np.arange(8, dtype="float32"), np.ones(8, "float32")
    axpy(n, x, np.float64(0.5), y)
    np.testing.assert_array_equal(y, [1, 1.5, 2, 1, 1, 1, 1, 1])
    axpy(8, x, 2, y)
    np.testing.assert_array_equal(y[3:], 1 + 2 * x[3:])


def test_a_number_of_torch_is_passed_by_value(axpy):
    torch = pytest.importorskip("torch")
    x, y = np.ones(8, "float32"), np.zeros(8, "float32")
    axpy(torch.tensor(4), x, torch.tensor(0.5, dtype=torch.bfloat16), y)
    np.testing.assert_array_equal(y, [0.5] * 4 + [0] * 4)


@pytest.mark.parametrize(
    ("n", "alpha", "message"),
    [
        (3.5, 1, "f: argument 'n': expected int32, got 3.5"),
        (2**31, 1, "f: argument 'n': expected int32 .*, got 2147483648"),
        (np.ones(1, "int32"), 1, r"f: argument 'n': expected one number \(int32\), got ndarray"),
        (3, "1", "f: argument 'alpha': expected one number"),
        (3, np.ones((8,), "float32"), "f: argument 'alpha': expected one number"),
    ],
)
def test_what_is_no_such_number_is_refused_by_name(axpy, n, alpha, message):
    with pytest.raises(KernelError, match=message):
        axpy(n, np.ones(8, "float32"), alpha, np.ones(8, "float32"))


@pytest.mark.many_cases
@pytest.mark.parametrize("dtype", ITEM_BYTES)
def test_a_scalar_of_every_dtype_arrives_whole(target, dtype):
    names = C_NAMES if target == "c" else CUDA_NAMES
    kind = names.get(dtype, f"{dtype}_t")
    # Others before and behind it: what is passed must not slide.
    args = [arg("a", (), "int8"), arg("s", (), dtype), arg("b", (), "float32")]
    args += [arg("y", (8,), dtype, role="out"), arg("c", (), "float64")]
    args += [arg("z", (8,), "float64", role="out")]
    params = f"int8_t a, {kind} s, float b, {kind} *y, double c, double *z"
    func = built(target, params, "{ y[i] = s; z[i] = a * 1e6 + b * 1e3 + c; }", args)
    numbers = numpy_dtype(dtype)
    extreme = {"bool": 1, "bfloat16": 3.140625, "float16": -65504}.get(dtype)
    if extreme is None:
        extreme = np.finfo(dtype).tiny if "float" in dtype else np.iinfo(dtype).min + 3
    y, z = np.zeros(8, numbers), np.zeros(8)
    func(-5, extreme, 0.25, y, 0.125, z)
    np.testing.assert_array_equal(y, np.full(8, extreme).astype(numbers))
    np.testing.assert_array_equal(z, np.full(8, -5e6 + 250.125))


def test_scalars_reach_each_call_of_a_function(target):
    prelude = text(target, "float *w, int a", "w[i] = a * i;", "first")
    prelude += text(target, "const float *w, float b, int a, float *y", "y[i] = w[i] * b + a;")
    args = [arg("a", (), "int32"), arg("b", ()), arg("y", (8,), role="out")]
    kernel = SourceKernel(
        "both",
        prelude,
        args,
        calls=[call("first", ["w", "a"], 1, 8), call("f", ["w", "b", "a", "y"], 1, 8)],
        workspace=[workspace("w", (8,))],
    )
    y = np.zeros(8, "float32")
    driver.build(kernel, target=target)(3, 0.5, y)
    np.testing.assert_array_equal(y, 1.5 * np.arange(8) + 3)


def test_scalars_have_the_given_value_in_trials_or_a_random_one(axpy):
    buffers = axpy.executable.allocate()
    n, x, alpha, y = buffers.read_inputs()
    assert (n.shape, n.dtype, int(n)) == ((), "int32", 6)
    assert alpha.dtype == "float32"
    assert alpha != 0
    axpy.executable.run(buffers)
    expected = y.copy()
    expected[:6] += alpha * x[:6]
    np.testing.assert_allclose(buffers.read()[0], expected, rtol=1e-6)
    axpy.executable.time(buffers, TimeOptions(number=4, repeat=2, input_sets=3))
    assert all(int(one[0].numpy()) == 6 for one in buffers.sets)


def test_timing_uses_the_numbers_it_is_given(target):
    func = built(target, "int n, int *y", "y[i] = n;", [AXPY[0], arg("y", (8,), "int32", "out")])
    y = np.zeros(8, "int32")
    evaluate = func.time_evaluator("f", number=2)
    for n in (4, 5):
        assert evaluate(n, y).mean > 0
        assert (y == n).all()


def test_a_file_keeps_scalars_and_constants(target, tmp_path):
    prelude = {"c": "", "cuda": "__constant__ "}[target.split()[0]] + "float mask[2];\n"
    args = [constant("mask", (2,)), arg("s", (), "bfloat16", value=1.5)]
    args += [arg("y", (8,), role="out")]
    kind = "uint16_t" if target == "c" else "__nv_bfloat16"
    func = built(target, f"{kind} s, float *y", "y[i] = mask[i % 2];", args, prelude)
    func.export_library(tmp_path / "f.atm")
    again = load_module(tmp_path / "f.atm")
    assert again.kernel == func.kernel
    y = np.zeros(8, "float32")
    again(np.array([3, 4], "float32"), ml_dtypes.bfloat16(2), y)
    np.testing.assert_array_equal(y, [3, 4] * 4)


def test_names_of_arguments_and_functions_may_be_any_text(target):
    args = [arg('the "n" \\\n', (), "int32"), arg("y'", (8,), "int32", "out")]
    source = text(target, "int n, int *y", "y[i] = n;")
    kernel = SourceKernel(
        'a "b" \\/', source, args, calls=[call("f", [a.name for a in args], 1, 8)]
    )
    y = np.zeros(8, "int32")
    driver.build(kernel, target=target)(3, y)
    assert (y == 3).all()


# ---- constants ---------------------------------------------------------------------------------


MASKED = [
    constant("mask", (2, 2)),
    arg("x", (8,)),
    constant("gain", (), "int32"),
    arg("y", (8,), role="out"),
]


def masked(target, declaration="float mask[2][2]; __constant__ int gain;"):
    prelude = f"#define __constant__\n{declaration}\n"
    if target != "c":
        prelude = f"__constant__ {declaration}\n"
    body = "y[i] = mask[i / 2 % 2][i % 2] * x[i] * gain;"
    return built(target, "const float *x, float *y", body, MASKED, prelude)


def test_constants_are_filled_before_each_run(target):
    func = masked(target)
    x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    for gain in (1, 3):
        mask = np.arange(4, dtype="float32").reshape(2, 2) + gain
        func(mask, x, np.array(gain, "int32"), y)
        np.testing.assert_array_equal(y, np.tile(mask.ravel(), 2) * x * gain)


def test_constants_are_filled_before_runs_are_timed(target):
    executable = masked(target).executable
    buffers = executable.allocate()
    mask, x, gain = buffers.read_inputs()
    executable.time(buffers, TimeOptions(number=2, repeat=1, input_sets=2))
    np.testing.assert_allclose(buffers.read()[0], np.tile(mask.ravel(), 2) * x * gain, rtol=1e-6)


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("float mask[5]; static __constant__ int gain;", r"mask has another size than float32\[2"),
        ("const float mask[2][2] = {}; static int gain;", "const"),
        ("float mosk[2][2]; static int gain;", "mask"),
    ],
)
def test_a_variable_that_cannot_be_filled_is_refused_when_it_is_compiled(
    target, declaration, message
):
    with pytest.raises(CompileError, match=message):
        masked(target, declaration)
