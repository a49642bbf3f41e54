"""Numbers, constants and instances of templates on a device: the claims of the CPU's tests, and
those that only a device can break."""

import numpy as np
import pytest

import autotune.driver as driver
from autotune.errors import CompilerMissing
from autotune.kernel import SourceKernel, arg, call, constant, workspace
from autotune.runtime import TimeOptions, array, cuda
from autotune.runtime.compile import cuda_compilers
from tests.measure.test_scalars import measured
from tests.runtime.test_scalars import (  # noqa: F401  (run again, on the target below)
    axpy,
    built,
    masked,
    test_a_file_keeps_scalars_and_constants,
    test_a_number_of_torch_is_passed_by_value,
    test_a_scalar_of_every_dtype_arrives_whole,
    test_constants_are_filled_before_each_run,
    test_constants_are_filled_before_runs_are_timed,
    test_python_numpy_and_our_own_numbers_are_passed_by_value,
    test_scalars_have_the_given_value_in_trials_or_a_random_one,
    test_scalars_reach_each_call_of_a_function,
    test_timing_uses_the_numbers_it_is_given,
    test_what_is_no_such_number_is_refused_by_name,
)
from tests.runtime.test_signatures import NAMES, SCALE, TEMPLATES, TWO

pytestmark = pytest.mark.gpu


@pytest.fixture
def target():
    return "cuda"


@pytest.fixture(params=["nvcc", "nvrtc"])
def compiler(request):
    if request.param == "nvrtc":
        try:
            cuda_compilers.find_nvrtc()
        except CompilerMissing:
            pytest.skip("no NVRTC")
    return request.param


@pytest.mark.parametrize("name", NAMES)
def test_an_instance_of_a_template_runs(name, compiler):
    kernel = SourceKernel(name, TEMPLATES, SCALE, block=8)
    func = driver.build(kernel, target="cuda", compiler=compiler)
    x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    func(x, y, 6, 0.5)
    np.testing.assert_array_equal(y, np.where(x < 6, x / 2 + 4, 0))
    assert func.time_evaluator(name, number=5)(x, y, 6, 0.5).mean > 0


def test_a_function_of_several_instances_runs(compiler):
    kernel = SourceKernel("both", TEMPLATES, SCALE, **TWO)
    x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    driver.build(kernel, target="cuda", compiler=compiler)(x, y, 8, 2)
    np.testing.assert_array_equal(y, (x + 3 - 1) * 2 + 3)


@pytest.mark.parametrize("graph", [True, False])
def test_scalars_keep_their_values_in_graphs_and_over_sets_of_arguments(graph):
    args = [arg("n", (), "int64", value=2**40 + 1), arg("y", (256,), "int64", "out")]
    source = 'extern "C" __global__ void f(long long n, long long *y) { y[threadIdx.x] = n; }'
    func = driver.build(SourceKernel("f", source, args, block=256), target="cuda")
    buffers = func.executable.allocate()
    options = TimeOptions(number=10, repeat=2, use_graph=graph, input_sets=4)
    func.executable.time(buffers, options)
    assert all((y.numpy() == 2**40 + 1).all() for _, y in buffers.sets)


def test_more_than_four_kilobytes_of_parameters_arrive():
    names = [f"s{i}" for i in range(520)]
    source = (
        f'extern "C" __global__ void f({", ".join(f"double {n}" for n in names)}, double *y) '
        f"{{ y[0] = {' + '.join(names)}; }}"
    )
    args = [*(arg(n, (), "float64") for n in names), arg("y", (1,), "float64", "out")]
    func = driver.build(SourceKernel("f", source, args), target="cuda")
    y = np.zeros(1)
    func(*range(520), y)
    assert y[0] == sum(range(520))


def test_a_static_constant_is_filled():
    source = """static __constant__ float mask[4];
    extern "C" __global__ void f(float *y) { y[threadIdx.x] = mask[threadIdx.x]; }"""
    args = [constant("mask", (4,)), arg("y", (4,), role="out")]
    values, y = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    driver.build(SourceKernel("f", source, args, block=4), target="cuda")(values, y)
    np.testing.assert_array_equal(y, values)


def test_constants_on_the_device_are_used_where_they_are(target):
    func = masked(target)
    mask, x = array(np.ones((2, 2), "float32"), cuda()), array(np.ones(8, "float32"), cuda())
    y = array(np.zeros(8, "float32"), cuda())
    func(mask, x, np.array(3, "int32"), y)
    assert (y.numpy() == 3).all()


def test_the_reference_gets_the_numbers_and_wrong_kernels_are_found():
    right, wrong = measured("cuda", 40)
    assert right.ok, right
    assert wrong.error_no == 5


def test_a_workspace_and_scalars_go_together(target):
    source = """
    extern "C" __global__ void a(float *w, int n, const float *x) {
      w[threadIdx.x] += n * x[threadIdx.x];
    }
    extern "C" __global__ void b(const float *w, float *y) { y[threadIdx.x] = w[threadIdx.x]; }
    """
    kernel = SourceKernel(
        "sum", source, [arg("n", (), "int32"), arg("x", (32,)), arg("y", (32,), role="out")],
        calls=[call("a", ["w", "n", "x"], 1, 32), call("b", ["w", "y"], 1, 32)],
        workspace=[workspace("w", (32,), zero=True)],
    )  # fmt: skip
    x, y = np.arange(32, dtype="float32"), np.zeros(32, "float32")
    driver.build(kernel, target=target)(5, x, y)
    np.testing.assert_array_equal(y, 5 * x)
