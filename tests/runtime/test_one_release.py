"""nvcc and NVRTC of one release make the same machine code: results do not depend on the choice.

Which release that holds from, and what is left, stands at `nvrtc_recipe`.
"""

import ctypes
import re
from pathlib import Path

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest

from autotune.errors import CompilerMissing
from autotune.kernel import SourceKernel, arg
from autotune.runtime import compile_kernel
from autotune.runtime.compile.cuda_compilers import find_nvrtc
from autotune.runtime.compile.elf import sections
from autotune.runtime.compile.toolchain import nvcc_toolchain
from autotune.target import Target
from autotune.task import create
from tests.golden.kept import TEXTS, whole_text

SM90 = Target("cuda -arch=sm_90")
GOLDEN = sorted(path.stem for path in TEXTS.glob("*_cuda.cu"))
TEMPLATES = [
    ("conv2d_nchw.cuda", (1, 14, 14, 64, 32, 3, 3, (1, 1), (1, 1), True, True)),
    ("gemm_nn.cuda", (256, 256, 256)),
    ("gemm_nn.cuda", (256, 256, 256, "float16")),
    ("softmax.cuda", (128, 1024)),
]
# One release's first number and second: the first that addresses shared memory alike.
ALIKE = (13, 1)


def nvrtc_release():
    major, minor = ctypes.c_int(), ctypes.c_int()
    library = ctypes.CDLL(str(find_nvrtc()))
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def releases():
    """Return the releases of nvcc and NVRTC, or None where one is missing."""
    try:
        version = nvcc_toolchain().version
        return tuple(
            map(int, re.search(r"release (\d+)\.(\d+)", version).groups())
        ), nvrtc_release()
    except CompilerMissing:
        return None


@pytest.fixture(scope="module")
def release():
    found = releases()
    if found is None or found[0] != found[1]:
        pytest.skip(f"nvcc and NVRTC are not there in one release: {found}")
    return found[0]


def both(kernel, folder):
    return [
        compile_kernel(kernel, SM90, compiler=compiler, out_dir=folder)
        for compiler in ("nvcc", "nvrtc")
    ]


def assert_same(kernel, folder):
    nvcc, nvrtc = both(kernel, folder)
    assert nvcc.code_hash == nvrtc.code_hash
    assert nvcc.resources == nvrtc.resources


def instructions(output):
    """Return the code of each function, its constants and its shared memory."""
    # Bank 4 has the addresses of variables, also of those that nothing reads.
    parts = (".text.", ".nv.constant0", ".nv.constant2", ".nv.constant3", ".nv.shared.")
    cubin = sections(Path(output.artifact).read_bytes())
    return {s.name: (s.size, s.content) for s in cubin if s.name.startswith(parts)}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", GOLDEN)
def test_generated_kernels_become_the_same_code(name, release, tmp_path):
    text = whole_text(TEXTS / f"{name}.cu")
    if release < ALIKE and "__shared__" in text:
        pytest.skip("up to release 13.0 NVRTC addresses shared memory otherwise")
    args = [arg("x", (1,)), arg("y", (1,), role="out")]
    assert_same(SourceKernel(f"{name}_kernel0", text, args, block=32).kernel("cuda"), tmp_path)


@pytest.mark.parametrize(("name", "args"), TEMPLATES)
def test_kernels_of_templates_become_the_same_code(name, args, release, tmp_path):
    if release < ALIKE:
        pytest.skip("up to release 13.0 NVRTC addresses shared memory otherwise")
    task = create(name, args, str(SM90))
    for index in task.config_space.sample(3, np.random.default_rng(0)):
        kernel = task.instantiate(task.config_space.get(index)).kernel("cuda")
        nvcc, nvrtc = both(kernel, tmp_path)
        # The whole code_hash would differ by constants at namespace scope that nothing reads.
        assert instructions(nvcc) == instructions(nvrtc)
        assert nvcc.resources == nvrtc.resources


SOURCE = """
extern "C" __global__ void f(const float *x, float *y) {
  float r[40], sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 40; k++) r[k] = x[(threadIdx.x + k) % 128] * VALUE;
  for (int k = 0; k < 40; k++) sum += r[k] * r[(k * 7) % 40] / (1.0f + r[k]);
  y[threadIdx.x] = sqrtf(sum);
}
"""
FLAGS = [
    "-DVALUE=2", "-D VALUE=2", "-DOTHER=1,VALUE=2", "-DVALUE=2 -UOTHER", "-DVALUE=2 -O1",
    "-DVALUE=2 -std c++17", "-DVALUE=2 -std=c++17", "-DVALUE=2 --std c++14",
    "-DVALUE=2 -use_fast_math", "-DVALUE=2 -fmad=false", "-DVALUE=2 -ftz true",
    "-DVALUE=2 -prec-div=false", "-DVALUE=2 -maxrregcount=24", "-DVALUE=2 -maxrregcount 24",
    "-DVALUE=2 -Xptxas -O1", "-DVALUE=2 -Xptxas=-O1", "-DVALUE=2 -Xptxas -dlcm=cg,-O2",
    "-DVALUE=2 --ptxas-options=-v,-O2", "-DVALUE=2 -Xcompiler -O3", "-DVALUE=2 -lineinfo",
    "-DVALUE=2 -Xcompiler=-Wall", "-DVALUE=2 -arch=sm_90a", "-DVALUE=2 -arch sm_80",
    "-DVALUE=2 -gencode arch=compute_90a,code=sm_90a", "-DVALUE=2 -arch=compute_80 -code=sm_80",
    "-DVALUE=2 --extra-device-vectorization", "-DVALUE=2 --expt-relaxed-constexpr -w -g",
    "-DVALUE=2 -isystem /tmp -I/tmp,/usr", "-DVALUE=2 -diag-suppress 177",
    "-DVALUE=2 --threads 2 --default-stream per-thread -m64 -res-usage",
]  # fmt: skip


def flagged(flags):
    args = [arg("x", (128,)), arg("y", (128,), role="out")]
    return SourceKernel("f", SOURCE, args, block=128, flags=flags.split()).kernel("cuda")


@pytest.mark.many_cases
@pytest.mark.parametrize("flags", FLAGS)
def test_flags_mean_the_same_to_both(flags, release, tmp_path):
    assert_same(flagged(flags), tmp_path)


@pytest.mark.many_cases
@pytest.mark.parametrize("flags", FLAGS)
def test_nvrtc_takes_what_nvcc_takes(flags, tmp_path):
    try:
        find_nvrtc()
    except CompilerMissing:
        pytest.skip("no NVRTC")
    assert compile_kernel(flagged(flags), SM90, compiler="nvrtc", out_dir=tmp_path).artifact
