"""Kernels for the CPU in C++, as Kernel Tuner's ``lang="C"`` takes them."""

import numpy as np
import pytest

from autotune.kernel_tuner import run_kernel, tune_kernel
from autotune.target import Target

SCALE = """
#include <algorithm>
#include <chrono>

__constant__ float offset[1];
template <typename T> T twice(T x) { return 2 * x; }

extern "C" float scale(float *out, const float *x, bool flip, int n) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < n; i += UNROLL)
    for (int u = 0; u < UNROLL; ++u) out[i + u] = twice(flip ? -x[i + u] : x[i + u]) + offset[0];
  std::sort(out, out + n);
  std::chrono::duration<float, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count();
}
""".replace("__constant__ ", "")
X = np.arange(16, dtype="float32")
ARGUMENTS = [np.zeros_like(X), X, np.bool_(True), np.int32(16)]
OFFSET = {"offset": np.ones(1, "float32")}


def test_a_kernel_in_cxx_is_tuned_and_compared():
    answer = [np.sort(1 - 2 * X), None, None, None]
    results, env = tune_kernel(
        "scale", SCALE, 16, ARGUMENTS, {"UNROLL": [1, 4]}, answer=answer, lang="C",
        compiler="g++", compiler_options=["-O2", "-std=c++17"], cmem_args=OFFSET, quiet=True,
    )  # fmt: skip
    assert not env["failed"]
    assert sorted(each["UNROLL"] for each in results) == [1, 4]


@pytest.mark.parametrize("linkage", ['extern "C" ', ""])
def test_functions_of_cxx_may_have_either_linkage(linkage):
    source = SCALE.replace('extern "C" ', linkage)
    found = run_kernel("scale", source, 16, ARGUMENTS, {"UNROLL": 2}, lang="C", cmem_args=OFFSET)
    np.testing.assert_array_equal(found[0], np.sort(1 - 2 * X))


def test_arguments_that_do_not_fit_are_found_by_the_compiler():
    arguments = [*ARGUMENTS[:3], np.float32(16.5)]
    with pytest.raises(Exception, match=r"parameter|argument"):
        run_kernel("scale", SCALE, 16, arguments, {"UNROLL": 2}, lang="C", cmem_args=OFFSET)


@pytest.mark.parametrize(
    "text",
    [
        "auto twice = [&](float v) { return 2 * v; }; y[0] = twice(x);",
        "bool two = true; y[0] = two ? 2 * x : 0;",
        "float &first = y[0]; first = 2 * x;",
        "constexpr int two = 2; y[0] = two * x;",
    ],
)
def test_what_only_cxx_has_makes_a_text_cxx(text):
    source = f'extern "C" void f(float *y, float x) {{ {text} }}'
    assert (
        run_kernel("f", source, 1, [np.zeros(1, "float32"), np.float32(3)], {}, lang="C")[0] == 6
    )


@pytest.mark.parametrize(
    "text",
    [
        "// like std::max, or a template <int N>\nfloat *restrict z = y; z[0] = 2 * x;",
        "/* nullptr */ float *restrict z = y; int two = 3 & 2; z[0] = two * x;",
    ],
)
def test_what_comments_say_makes_no_text_cxx(text):
    source = f"#include <stdbool.h>\nvoid f(float *y, float x) {{ bool no = 0; {text} }}"
    assert (
        run_kernel("f", source, 1, [np.zeros(1, "float32"), np.float32(3)], {}, lang="C")[0] == 6
    )


@pytest.mark.parametrize("flags", ["-x c++", "-xc++ -DX", "-x c -xc++"])
def test_a_flag_makes_a_text_cxx(flags):
    source = "void f(float *y, float x) { y[0] = 2 * x; }"
    arguments = [np.zeros(1, "float32"), np.float32(3)]
    found = run_kernel("f", source, 1, arguments, {}, lang="C", compiler_options=flags.split())
    assert found[0] == 6


def test_a_kernel_for_the_host_runs_there_within_a_target_for_a_gpu():
    code = 'extern "C" void twice(float* x, int n) { for (int i = 0; i < n; i++) x[i] *= 2; }'
    x = np.arange(4, dtype="float32")
    with Target("cuda -emulate"):
        result = run_kernel("twice", code, 4, [x, np.int32(4)], {}, lang="C")
    assert list(result[0]) == [0, 2, 4, 6]
