"""What may stand for a kernel and its arguments in a script of Kernel Tuner, and what may not."""

import numpy as np
import pytest

from autotune.errors import AutotuneError
from autotune.kernel_tuner import run_kernel, tune_kernel
from autotune.kernel_tuner.kernelbuilder import PythonKernel
from autotune.target import Target

DOUBLE = """
__global__ void twice(float *x, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) x[i] *= 2;
}
"""
LAUNCHER = """
__global__ void twice(float *x, int n);
float all(float *x, int n) {
  twice<<<n / block_size_x, block_size_x>>>(x, n);
  return 0;
}
"""


def run(source, array, lang=None):
    with Target("cuda -emulate"):
        return run_kernel(
            "twice", source, 32, [array, np.int32(32)], {"block_size_x": 32}, lang=lang
        )[0]


class OnTheDevice:
    """What CuPy's arrays have that this module looks at."""

    def __init__(self, held):
        self.held = held

    def __dlpack__(self, **_):
        raise TypeError("no memory of the host")

    def get(self):
        return self.held


def test_arrays_of_other_libraries_are_copied():
    torch = pytest.importorskip("torch")
    x = np.arange(32, dtype="float32")
    for array in torch.arange(32.0, requires_grad=True), OnTheDevice(x):
        np.testing.assert_array_equal(run(DOUBLE, array, "pycuda"), 2 * x)


def test_arrays_of_pytorch_may_be_conjugated_or_of_bfloat16():
    torch = pytest.importorskip("torch")
    source = "void f(float *y, const {0} *x) {{ y[0] = x[1]; }}"
    z = torch.tensor([1 + 2j, 3 + 4j], dtype=torch.complex64).conj()
    out = np.zeros(1, "float32")
    assert run_kernel("f", source.format("float"), 1, [out, z], {}, lang="C")[0] == -2
    short = torch.tensor([1.0, 1.5], dtype=torch.bfloat16)
    found = run_kernel("f", source.format("unsigned short"), 1, [out, short], {}, lang="C")
    assert found[0] == 0x3FC0
    assert found[1].astype("float32").tolist() == [1, 1.5]


@pytest.mark.parametrize(
    ("source", "lang", "words"),
    [
        ("kernel.cl", None, r"kernel_source: kernel\.cl is in OpenCL: .*CUDA C\+\+ and C"),
        ("blur.cu.hip", None, "is in HIP"),
        ("add.F90", None, "is in Fortran"),
        ("script.py", None, "is in Python"),
        ("no_such.cuda", None, r"cannot read no_such\.cuda: No such file"),
        (DOUBLE, "HIP", r"lang: expected CUDA or C, got 'HIP': .*a change of names"),
        (LAUNCHER, "C", "code of the host that launches CUDA kernels.*tune a kernel by itself"),
        ("void f(float *d) { cudaMemcpy(d, d, 4, 0); }", "c", "code of the host"),
    ],
)
def test_what_cannot_be_compiled_says_why(source, lang, words):
    with pytest.raises(AutotuneError, match=words):
        run(source, np.zeros(32, "float32"), lang)


def test_a_comment_that_looks_like_a_launch_is_none():
    source = "// <<< in and out >>>\nvoid twice(float *x, int n) { x[0] = n; }"
    found = run_kernel("twice", source, 1, [np.zeros(2, "float32"), np.int32(3)], {}, lang="C")
    assert found[0][0] == 3


def test_a_path_may_have_any_ending(tmp_path):
    (tmp_path / "my kernel.cuda").write_text(DOUBLE)
    assert run(str(tmp_path / "my kernel.cuda"), np.ones(32, "float32")).sum() == 64


def test_complex_numbers_are_pairs_of_numbers():
    source = """
__global__ void conjugate(float2 *out, const float2 *x, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) { out[i].x = x[i].x; out[i].y = -x[i].y; }
}
"""
    x = (np.arange(8) + 1j * np.arange(8)[::-1]).astype("complex64").reshape(2, 4)
    arguments = [np.zeros_like(x), x, np.int32(8)]
    with Target("cuda -emulate"):
        found = run_kernel("conjugate", source, 8, arguments, {"block_size_x": 8})
        results, env = tune_kernel(
            "conjugate", source, 8, arguments, {"block_size_x": [4, 8]}, quiet=True,
            answer=[x.conj(), None, None], iterations=1,
        )  # fmt: skip
    np.testing.assert_array_equal(found[0], x.conj())
    assert found[0].dtype == x.dtype
    assert len(results) == 2, env["failed"]


def test_complex_numbers_stay_so_for_verify_and_in_a_python_kernel():
    source = "void conjugate(float *out, const float *x, int n) { out[0] = x[0]; out[1] = -x[1]; }"
    x = np.array([[1 + 2j]], "complex64")
    arguments = [np.zeros_like(x), x, np.int32(1)]
    options = {"lang": "C", "answer": [x.conj(), None, None], "quiet": True}

    def verify(answer, results, atol):
        assert answer[1] is None
        assert results[1].dtype == x.dtype
        return results[0].shape == (1, 1) and results[0] == answer[0]

    results, env = tune_kernel(
        "conjugate", source, 1, arguments, {"t": [1]}, verify=verify, **options
    )
    assert len(results) == 1, env["failed"]
    kernel = PythonKernel("conjugate", source, 1, arguments, {"t": 1}, lang="C")
    np.testing.assert_array_equal(kernel(*arguments)[0], x.conj())


@pytest.mark.parametrize("absolute", [True, False])
def test_headers_are_found_in_the_folders_of_compiler_options(tmp_path, monkeypatch, absolute):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "twice.cuh").write_text(DOUBLE.replace("*= 2", "*= FACTOR"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "headers" if absolute else "headers"
    with Target("cuda -emulate"):
        found = run_kernel(
            "twice", '#include "twice.cuh"', 32, [np.ones(32, "float32"), np.int32(32)],
            {"block_size_x": 32}, lang="CUDA", compiler_options=[f"-I{folder}", "-DFACTOR=3"],
        )  # fmt: skip
    assert found[0].sum() == 96


@pytest.mark.parametrize(
    "words",
    [
        "-I headers -D FACTOR=3",
        "--include-path=headers --define-macro FACTOR=3",
        "-isystem headers -DFACTOR=3",
        "-O3 --system-include headers -DFACTOR=3 --use_fast_math",
    ],
)
def test_emulated_kernels_take_flags_in_each_spelling(tmp_path, monkeypatch, words):
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "twice.cuh").write_text(DOUBLE.replace("*= 2", "*= FACTOR"))
    monkeypatch.chdir(tmp_path)
    with Target("cuda -emulate"):
        found = run_kernel(
            "twice", '#include "twice.cuh"', 32, [np.ones(32, "float32"), np.int32(32)],
            {"block_size_x": 32}, lang="CUDA", compiler_options=words.split(),
        )  # fmt: skip
    assert found[0].sum() == 96
