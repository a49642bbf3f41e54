"""Launches that a CUDA kernel asks for by its text, and that were left out."""

import re

import pytest

from autotune.errors import KernelError
from autotune.kernel import Launch, SourceKernel, arg, call

ARGS = [arg("x", (64,)), arg("y", (64,), role="out")]


def kernel(body, before="", **launch):
    text = f'{before}extern "C" __global__ void f(const float *x, float *y) {{ {body} }}'
    return SourceKernel("f", text, ARGS, **launch).kernel("cuda")


@pytest.mark.parametrize(
    ("body", "before", "launch", "message"),
    [
        ("y[threadIdx.x] = 1;", "", {}, "it reads threadIdx, so its launch must say how many"),
        (
            "y[blockIdx.x] = 1;",
            "",
            {"block": 1},
            "reads blockIdx, .*grid=-.*one is meant, grid=1$",
        ),
        (
            "y[GID] = 1;",
            "#define GID (blockIdx.x * 4 + \\\n threadIdx.x)\n",
            {},
            "grid=1, block=1$",
        ),
        ("y[at(2)] = 1;", "#define at(n) (threadIdx.x + n)\n", {}, "reads threadIdx"),
        ("y[at()] = 1;", "__device__ int at() { return threadIdx.x; }\n", {}, "reads threadIdx"),
        ("auto g = cg::this_grid();", "", {}, "reads this_grid, "),
    ],
)
def test_a_kernel_that_asks_for_its_thread_is_refused_without_a_launch(
    body, before, launch, message
):
    with pytest.raises(KernelError, match=message):
        kernel(body, before, **launch)


def test_a_kernel_for_one_thread_needs_no_launch():
    assert kernel("y[0] = 1; // threadIdx").calls[0].launch == Launch()
    other = 'extern "C" __global__ void g(float *y) { y[threadIdx.x] = 2; }\n'
    assert kernel("y[0] = 1;", other).calls[0].launch == Launch()
    other = other.replace("y[threadIdx.x] = 2;", "if (y) { y[threadIdx.x] = 2; }")
    assert kernel("if (x) { y[0] = 1; }", other).calls[0].launch == Launch()
    assert kernel("y[threadIdx.x] = 1;", block=1).calls[0].launch == Launch()


def test_a_c_function_needs_no_launch():
    text = "void f(const float *x, float *y) { int threadIdx = 3; y[threadIdx] = 1; }"
    SourceKernel("f", text, ARGS).kernel("c")


def test_the_call_without_a_launch_is_named():
    text = 'extern "C" __global__ void %s(const float *x, float *y) { y[threadIdx.x] = 1; }\n'
    calls = [call("g", ["x", "y"], block=64), call("h", ["x", "y"])]
    both = SourceKernel("both", text % "g" + text % "h", ARGS, calls=calls)
    with pytest.raises(KernelError, match=re.escape("kernel 'both', entry 'h': it reads threadI")):
        both.kernel("cuda")
