"""What a kernel of Kernel Tuner's scripts has defined, and how C kernels are linked."""

import numpy as np
import pytest

from autotune.errors import AutotuneError
from autotune.kernel_tuner import run_kernel, tune_kernel
from autotune.kernel_tuner.defines import without_linkage
from autotune.target import Target

SCALE = """
extern "C" float scale(float *y, const float *x, int n) {
  for (int i = 0; i < n; i += STEP)
    for (int j = i; j < i + STEP; ++j) y[j] = FACTOR * x[j];
  return 0; // "extern" here
}
"""
ADD = """
__global__ void add(float *y, const float *x) {
  y[blockIdx.x * THREADS + threadIdx.x] = x[blockIdx.x * THREADS + threadIdx.x] + MORE;
}
"""


@pytest.fixture
def arrays():
    x = np.arange(64, dtype="float32")
    return [np.zeros_like(x), x, np.int32(64)]


IN_BLOCK = 'extern "C" {' + SCALE.replace('extern "C"', "", 1) + "}"


@pytest.mark.parametrize("source", [SCALE, IN_BLOCK])
def test_a_kernel_in_c_may_be_declared_as_one_of_cxx(arrays, source):
    results, env = tune_kernel(
        "scale", source, 64, arrays, {"STEP": [1, 4], "FACTOR": [3]}, lang="C", quiet=True,
        answer=[3 * arrays[1], None, None],
    )  # fmt: skip
    assert len(results) == 2
    assert not env["failed"]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('extern "C" int f();', "int f();"),
        (
            'extern "C" { int f() { return 0; } }\nint g() {}',
            "  int f() { return 0; } \nint g() {}",
        ),
        ('// extern "C" {\nint f();', '// extern "C" {\nint f();'),
        ('char *s = "extern \\"C\\" {";', 'char *s = "extern \\"C\\" {";'),
        ('extern\n"C"\n{ int x; }', "\n\n int x; "),
    ],
)
def test_linkage_is_left_out_of_c_and_lines_stay(text, plain):
    assert without_linkage(text).split() == plain.split()
    assert without_linkage(text).count("\n") == text.count("\n")


def test_what_is_defined_may_be_said(arrays):
    y, x, _ = arrays
    defines = {"THREADS": "tx * 2", "MORE": lambda p: p["tx"] + 2.5}
    with Target("cuda -emulate"):
        found = run_kernel(
            "add", ADD, 64, [y, x], {"tx": 16, "threads": 32}, block_size_names=["threads"],
            defines=defines,
        )  # fmt: skip
        assert (found[0] == x + 18.5).all()
        results, env = tune_kernel(
            "add", ADD, 64, [y, x], {"threads": [32, 64], "tx": [16]}, quiet=True,
            block_size_names=["threads"], defines={"THREADS": "threads", "MORE": 2},
            answer=[x + 2, None],
        )  # fmt: skip
    assert len(results) == 2
    assert not env["failed"]


@pytest.mark.parametrize(
    ("defines", "message"),
    [(["N"], "defines: expected a dict"), ({"N M": 1}, "expected the name of a macro, got 'N M'")],
)
def test_what_cannot_be_defined_is_refused(arrays, defines, message):
    with pytest.raises(AutotuneError, match=message):
        run_kernel("scale", SCALE, 64, arrays, {"STEP": 1}, lang="C", defines=defines)


def test_the_threads_of_a_block_are_defined_where_no_parameter_says_them():
    source = """
__global__ void f(int *out) {
  __shared__ int s[block_size_y][BX];
  s[threadIdx.y][threadIdx.x] = block_size_z;
  if (threadIdx.x == 0) out[blockIdx.x] = BX + 1000 * block_size_y * s[0][0];
}
"""
    with Target("cuda -emulate"):
        named = run_kernel("f", source, 64, [np.zeros(2, "int32")], {"BX": 32}, grid_div_x=["BX"],
                           block_size_names=["BX"])  # fmt: skip
        free = run_kernel("f", source, 2, [np.zeros(2, "int32")], {}, grid_div_x=[],
                          block_size_names=["BX"])  # fmt: skip
    assert named[0].tolist() == [1032, 1032]
    assert free[0].tolist() == [1256, 1256]
