import numpy as np
import pytest

import autotune.driver as driver
from autotune.errors import InstantiationError, KernelError
from autotune.kernel import SourceKernel, arg
from autotune.runtime import array, cpu, cuda, empty, load_module
from autotune.target import Target

pytestmark = pytest.mark.gpu

AXPY = SourceKernel(
    "axpy",
    'extern "C" __global__ void axpy(const float *x, float *y, int *n) {\n'
    "  y[threadIdx.x] += 2 * x[threadIdx.x];\n  n[0] = blockDim.x; }",
    [arg("x", (3, 4)), arg("y", (3, 4), role="inout"), arg("n", (1,), "int32", role="out")],
    block=12,
)


@pytest.fixture
def axpy():
    return driver.build(AXPY, target="cuda")


@pytest.fixture
def x():
    return np.arange(12, dtype="float32").reshape(3, 4)


def test_numpy_arrays_are_copied_in_and_out(axpy, x):
    y, n = np.ones((3, 4), "float32"), np.zeros(1, "int32")
    axpy(x, y, n)
    np.testing.assert_array_equal(y, 1 + 2 * x)
    assert n[0] == 12


def test_our_arrays_are_used_in_place(axpy, x):
    y, n = array(np.ones((3, 4), "float32"), cuda()), empty((1,), "int32", cuda())
    axpy(array(x, cuda()), y, n)
    np.testing.assert_array_equal(y.numpy(), 1 + 2 * x)
    assert n.numpy()[0] == 12


def test_host_arrays_of_ours_are_copied_in_and_out(axpy, x):
    y, n = array(np.ones((3, 4), "float32")), empty((1,), "int32")
    axpy(array(x), y, n)
    np.testing.assert_array_equal(y.numpy(), 1 + 2 * x)


def test_torch_tensors_are_used_in_place(axpy, x):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA")
    y = torch.ones(3, 4, device="cuda")
    n = torch.zeros(1, dtype=torch.int32, device="cuda")
    axpy(torch.from_numpy(x).cuda(), y, n)
    np.testing.assert_array_equal(y.cpu().numpy(), 1 + 2 * x)
    with pytest.raises(KernelError, match="contiguous"):
        axpy(torch.from_numpy(x).cuda(), torch.ones(4, 3, device="cuda").T, n)


def test_what_torch_queued_before_is_seen(axpy):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA")
    big = torch.randn(8192, 8192, device="cuda")
    x, y = torch.zeros(3, 4, device="cuda"), torch.zeros(3, 4, device="cuda")
    n = torch.zeros(1, dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    for _ in range(20):
        torch.mm(big, big)
    x.fill_(5)
    axpy(x, y, n)
    assert (y == 10).all()


def test_the_time_evaluator_is_tvms(axpy, x):
    y, n = array(np.ones((3, 4), "float32"), cuda()), empty((1,), "int32", cuda())
    evaluator = axpy.time_evaluator(axpy.entry_name, cuda(0), number=10, repeat=5)
    result = evaluator(array(x, cuda()), y, n)
    assert len(result.results) == 5
    assert 0 < result.median < 1e-3
    np.testing.assert_array_equal(y.numpy(), 1 + 2 * x)


def test_device_arrays_do_not_run_on_the_cpu(x):
    func = driver.build(
        SourceKernel("f", "void f(float *x) {}", [arg("x", (3, 4), role="inout")]), target="c"
    )
    with pytest.raises(KernelError, match="runs on cpu:0, the array is on cuda:0"):
        func(array(x, cuda()))
    func(array(x, cpu()))


def test_a_module_is_written_and_read_back(axpy, x, tmp_path):
    axpy.export_library(tmp_path / "axpy.atm")
    y, n = np.zeros((3, 4), "float32"), np.zeros(1, "int32")
    load_module(tmp_path / "axpy.atm")(x, y, n)
    np.testing.assert_array_equal(y, 2 * x)


def test_limits_are_those_of_the_device():
    most = Target("cuda").limits.shared_bytes_optin
    kernel = SourceKernel("axpy", AXPY.source, AXPY.args, block=12, shared_bytes=most + 1)
    with pytest.raises(InstantiationError, match=f"the device allows {most}"):
        driver.build(kernel, target="cuda")


def test_the_emulator_agrees_with_the_device(axpy, x):
    emulated = driver.build(AXPY, target="cuda -emulate")
    results = []
    for func in (axpy, emulated):
        y, n = np.ones((3, 4), "float32"), np.zeros(1, "int32")
        func(x, y, n)
        results.append(y)
    np.testing.assert_array_equal(*results)
