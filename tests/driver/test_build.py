import sys
from dataclasses import replace

import numpy as np
import pytest

import autotune.driver as driver
import autotune.te as te
from autotune.errors import InstantiationError, KernelError, TargetError
from autotune.kernel import SourceKernel, arg
from autotune.runtime.compile.toolchain import find_nvcc
from autotune.target import Target

DOUBLE = SourceKernel(
    "twice",
    "void twice(const float *x, float *y) { for (int i = 0; i < 8; i++) y[i] = 2 * x[i]; }",
    [arg("x", (8,)), arg("y", (8,), role="out")],
)
CUDA = SourceKernel(
    "twice",
    'extern "C" __global__ void twice(const float *x, float *y) '
    "{ y[threadIdx.x] = 2 * x[threadIdx.x]; }",
    [arg("x", (8,)), arg("y", (8,), role="out")],
    block=8,
)


def test_a_source_kernel_is_built_and_called():
    func = driver.build(DOUBLE, target="c")
    x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    func(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_the_target_of_the_context_is_used():
    with Target("llvm"):
        func = driver.build(DOUBLE)
    assert func.target == Target("llvm")
    with pytest.raises(TargetError, match=r"pass target= or wrap the call in `with Target"):
        driver.build(DOUBLE)


def test_a_target_behind_a_kernel_is_its_target():
    for target in ["llvm", Target("llvm")]:
        assert driver.build(DOUBLE, target).target == Target("llvm")
    with pytest.raises(KernelError, match="arguments of its own"):
        driver.build(DOUBLE, "c", "llvm")


def test_a_name_given_names_the_function():
    func = driver.build(DOUBLE, target="c", name="other")
    assert func.entry_name == "other"
    x, y = np.ones(8, "float32"), np.zeros(8, "float32")
    func(x, y)
    assert (y == 2).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": 2048}, "threads per block is 2048, the device allows 1024"),
        ({"block": (1, 1, 128)}, "block.z is 128, the device allows 64"),
        ({"shared_bytes": 1 << 20}, "dynamic shared bytes per block is 1048576"),
        ({"grid": (1, 1 << 17)}, "grid.y is 131072, the device allows 65535"),
    ],
)
def test_a_launch_over_a_limit_is_refused_before_compiling(options, message, monkeypatch):
    monkeypatch.setattr(sys.modules["autotune.driver.build"], "compile_kernel", pytest.fail)
    kernel = replace(CUDA, **options)
    with pytest.raises(InstantiationError, match=f"'twice' for cuda .*{message}"):
        driver.build(kernel, target="cuda -arch=sm_80")


def test_shared_memory_that_another_device_has_is_refused_with_how_to_name_it(monkeypatch):
    monkeypatch.setattr("autotune.target.backends.cuda.cuda_device", lambda: None)
    kernel = replace(CUDA, shared_bytes=100 << 10)
    with pytest.raises(InstantiationError, match="'cuda -emulate -arch=sm_90' emulates"):
        driver.build(kernel, target="cuda -emulate")
    driver.build(kernel, target="cuda -emulate -arch=sm_90")


@pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")
def test_a_cuda_function_is_built_without_a_device():
    func = driver.build(CUDA, target="cuda -arch=sm_90")
    assert func.suffix == ".cubin"
    assert func.resources["registers"] > 0
    assert "__global__" in func.imported_modules[0].get_source()


def test_a_cuda_function_is_emulated_where_the_target_says_so():
    func = driver.build(CUDA, target="cuda -emulate")
    x, y = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    func(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_what_is_no_kernel_is_named():
    with pytest.raises(KernelError, match="got int"):
        driver.build(3, target="c")
    with pytest.raises(KernelError, match=r"'twice' is written in"):
        driver.build(SourceKernel("twice", CUDA.source, CUDA.args, language="cuda"), target="c")


def test_a_kernel_for_another_language_is_refused():
    with pytest.raises(KernelError, match="language 'cuda'"):
        driver.build(CUDA.kernel("cuda"), target="c")


# ---- schedules ---------------------------------------------------------------------------------


def matmul(n=32):
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_schedule(c.op), [a, b, c]


def on_threads(n=32):
    s, (a, b, c) = matmul(n)
    i, j = s[c].op.axis
    s[c].bind(i, te.thread_axis("blockIdx.x"))
    s[c].bind(j, te.thread_axis("threadIdx.x"))
    return s, [a, b, c]


def check_matmul(func, n=32):
    rng = np.random.default_rng(0)
    a, b = (rng.random((n, n), dtype="float32") for _ in range(2))
    c = np.zeros((n, n), "float32")
    func(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_a_schedule_is_built_with_its_arguments():
    s, args = matmul()
    check_matmul(driver.build(s, args, "llvm", name="matmul"))
    assert driver.build(s, args, target="llvm", name="matmul").entry_name == "matmul"
    assert driver.build(s, args, target="llvm").entry_name == "default_function"


def test_what_a_template_returns_is_built():
    with Target("c"):
        check_matmul(driver.build(matmul()))
        check_matmul(driver.build(list(matmul())))


def test_what_lower_returns_prints_and_is_built():
    s, args = matmul()
    lowered = driver.lower(s, args, simple_mode=True, name="mm")
    assert "for" in str(lowered)
    check_matmul(driver.build(lowered, target="c"))


def test_a_schedule_for_threads_runs_on_the_emulator():
    check_matmul(driver.build(*on_threads(), target="cuda -emulate"))


def test_a_schedule_over_a_limit_is_refused():
    with pytest.raises(InstantiationError, match="threads per block is 2048"):
        driver.build(*on_threads(2048), target="cuda -arch=sm_80")


def test_a_schedule_without_arguments_is_refused():
    with pytest.raises(KernelError, match=r"together with its arguments: build\(s, \[A, B\]\)"):
        driver.build(matmul()[0], target="c")


@pytest.mark.parametrize(
    ("what", "args", "words"),
    [
        (None, None, "got None"),
        (None, [], r"got \(None, list\)"),
        ("void f() {}", None, "got str"),
        (DOUBLE, [], "a SourceKernel has arguments of its own"),
        ((1, [], 2), None, r"got \(int, list, int\)"),
    ],
)
def test_nonsense_is_refused_by_name(what, args, words):
    with pytest.raises(KernelError, match=words):
        driver.build(what, args, target="c")


@pytest.mark.parametrize("options", [{"name": 5}, {"timeout_s": "10"}, {"timeout_s": 0}])
def test_options_of_the_wrong_kind_are_refused_by_name(options):
    (name,) = options
    with pytest.raises(KernelError, match=f"build: {name} must be"):
        driver.build(DOUBLE, target="c", **options)


def test_a_hand_written_kernel_is_unpacked_and_built_as_a_schedule_and_its_arguments_are():
    s, args = DOUBLE
    assert [one.name for one in args] == [one.name for one in DOUBLE.args]
    assert driver.build(s, args, target="c").kernel == driver.build(DOUBLE, target="c").kernel
