"""Kernels that wait, at their start, for the kernel before them, so that they may begin early."""

import shutil
import subprocess

import pytest

from autotune.kernel import SourceKernel, arg, call
from autotune.kernel.dependent_launch import waiting

WAIT = "autotune_wait_for_kernel_before();"
TEXT = """\
// void first(float* y) { is only a comment
#define NOT_IT "void first(float* y) {"
#ifdef A
extern "C" __global__ void __launch_bounds__(32) first(
    float* y /* { */) { y[0] = 1; }
#else
extern "C" __global__ void first(float *y)
{
  if (threadIdx.x) return;
  y[0] = 2;
}
#endif
__device__ void wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
template <int N> __global__ void second(float* y) { if (N > 9) y[0] = 0; wait(); y[0] = N; }
__device__ void helper(float* y) { y[0] = 3; }
extern "C" __global__ void third(float* y) { helper(y); }
"""
CALLS = [call("first", ["y"], 1, 32), call("second<4>", ["y"], 1, 32, early=True),
         call("third", ["y"], 1, 32)]  # fmt: skip


def kernel(text=TEXT, calls=CALLS, **options):
    return SourceKernel("f", text, [arg("y", (1,), role="out")], calls=calls, **options)


def body(text, start):
    """Return what a body begins with."""
    return text.split(start, 1)[1].split("{", 1)[1].split("\n")[0].strip()


def test_the_first_kernel_waits_in_each_of_its_definitions_and_so_do_later_ones():
    one = waiting(kernel().kernel("cuda"))
    assert [each.launch.early for each in one.calls] == [True] * 3
    text = one.source
    assert text.count(WAIT) == 3  # twice in the first, once in the third
    assert body(text, "float* y /* { */)").startswith(f"{WAIT} y[0] = 1;")
    assert body(text, "first(float *y)") == WAIT
    assert body(text, "void third(").startswith(f"{WAIT} helper")
    assert body(text, "void helper(").startswith("y[0] = 3")
    assert "// void first(float* y) { is only a comment\n" in text
    assert '#define NOT_IT "void first(float* y) {"\n' in text


def test_a_kernel_that_waits_by_itself_stays_as_it_is():
    assert body(waiting(kernel().kernel("cuda")).source, "void second(").startswith("if (N > 9)")


@pytest.mark.parametrize(
    "wait", ["", "// griddepcontrol.wait;\n", "if (N < 0) helper(y);", "wait_for_something();"]
)
def test_a_kernel_whose_text_never_waits_waits_at_its_start(wait):
    text = waiting(
        kernel(TEXT.replace("wait(); y[0] = N", f"{wait} y[0] = N")).kernel("cuda")
    ).source
    assert body(text, "void second(").startswith(f"{WAIT} if (N > 9)")


def test_a_kernel_behind_one_that_waits_late_waits_at_its_start():
    """The one before may let it begin before what was queued ahead of both has ended."""
    several = [CALLS[0], CALLS[1], call("fourth", ["y"], 1, 32, early=True), CALLS[2]]
    fourth = 'extern "C" __global__ void fourth(float* y) { y[1] = 0; wait(); }\n'
    text = waiting(kernel(TEXT + fourth, several).kernel("cuda")).source
    assert body(text, "void second(").startswith("if (N > 9)")
    assert body(text, "void fourth(").startswith(f"{WAIT} y[1] = 0;")
    several[1:3] = [several[2]]
    text = waiting(kernel(TEXT + fourth, several).kernel("cuda")).source
    assert body(text, "void fourth(").startswith("y[1] = 0;")


def test_cudas_own_function_is_a_wait():
    own = TEXT.replace("wait(); y[0] = N", "cudaGridDependencySynchronize(); y[0] = N")
    text = waiting(kernel(own).kernel("cuda")).source
    assert body(text, "void second(").startswith("if (N > 9)")


def test_lines_keep_their_numbers():
    text = waiting(kernel().kernel("cuda")).source
    assert text.split("#line 1\n", 1)[1].count("\n") == TEXT.count("\n")


def test_a_kernel_whose_start_is_not_found_stays_as_it_is():
    made = '#define ENTRY(n) extern "C" __global__ void n(float* y) { y[0] = 1; }\nENTRY(first)\n'
    one = kernel(made, CALLS[:1]).kernel("cuda")
    assert waiting(one) is one


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize(("arch", "found"), [("sm_80", 0), ("sm_90", 3)])
def test_it_compiles_and_waits_where_the_device_can(tmp_path, arch, found):
    one = waiting(kernel().kernel("cuda"))
    (tmp_path / "k.cu").write_text(one.source + "template __global__ void second<4>(float*);\n")
    command = ["nvcc", "-ptx", f"-arch={arch}", str(tmp_path / "k.cu"), "-o", "-"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # Of the two definitions of the first kernel one is left, and the second waits by itself.
    assert text.count("griddepcontrol.wait;") == found
