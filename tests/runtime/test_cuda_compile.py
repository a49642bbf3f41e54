"""CUDA text is compiled without a device; needs nvcc, which CI machines may lack."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import (
    CompileError,
    CompilerCrashed,
    CompilerMissing,
    CompileTimeout,
    DeviceError,
)
from autotune.kernel import SourceKernel, arg, call
from autotune.runtime import compile_kernel, cuda, load
from autotune.runtime.compile.cuda_compilers import nvrtc_recipe
from autotune.runtime.compile.elf import code_bytes, sections
from autotune.runtime.compile.nvrtc_flags import flag_arch, nvrtc_flags
from autotune.runtime.compile.resources import parse_ptxas, summary
from autotune.runtime.compile.toolchain import find_nvcc
from autotune.target import Target
from autotune.target.query import cuda_device_count
from tests.runtime.compilers import needs_nvrtc

SM90 = Target("cuda -arch=sm_90")
SOURCE = """
#include <cuda_fp16.h>
extern "C" __global__ void reverse(const float *x, float *y) {
  __shared__ float tile[N];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = FACTOR * tile[N - 1 - threadIdx.x];
}
"""
needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc")


COMPILERS = [
    pytest.param("nvcc", marks=needs_nvcc),
    pytest.param("nvrtc", marks=needs_nvrtc),
]


def reverse(factor="2.0f", **options):
    args = [arg("x", (64,)), arg("y", (64,), role="out")]
    return SourceKernel(
        "reverse", SOURCE, args, {"N": 64, "FACTOR": factor}, block=64, **options
    ).kernel("cuda")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_cubin_and_its_resources_come_out(compiler, tmp_path):
    output = compile_kernel(reverse(), SM90, out_dir=tmp_path, compiler=compiler)
    assert output.artifact.endswith(".cubin")
    assert ".text.reverse" in [s.name for s in sections(Path(output.artifact).read_bytes())]
    assert output.resources["shared_bytes"] == 256
    assert 0 < output.resources["registers"] < 255
    assert output.resources["spill_bytes"] == 0
    assert output.entries["reverse"]["registers"] == output.resources["registers"]
    again = compile_kernel(reverse(), SM90, out_dir=tmp_path, compiler=compiler)
    assert again.cached
    assert again.resources == output.resources


@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_architecture_that_the_toolkit_left_behind_is_explained(compiler, tmp_path):
    with pytest.raises(CompileError, match="leave -arch out of the target"):
        compile_kernel(reverse(), Target("cuda -arch=sm_20"), out_dir=tmp_path, compiler=compiler)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_knob_unrolls_a_loop(compiler, tmp_path):
    source = """
extern "C" __global__ void k(float *y) {
#pragma unroll N
    for (int i = 0; i < 64; i++) y[64 * i] = i;
}
"""
    once, whole = (
        compile_kernel(
            SourceKernel("k", source, [arg("y", (4096,), role="out")], {"N": n}).kernel("cuda"),
            SM90,
            out_dir=tmp_path,
            compiler=compiler,
        )
        for n in (1, 64)
    )
    assert once.resources["code_bytes"] < whole.resources["code_bytes"]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_spills_are_reported_and_dynamic_shared_memory_is_added(compiler, tmp_path):
    source = """
    extern "C" __global__ void spill(const float *x, float *y) {
      extern __shared__ float s[];
      float r[64];
      #pragma unroll
      for (int i = 0; i < 64; i++) r[i] = x[i * 32 + threadIdx.x];
      __syncthreads();
      #pragma unroll
      for (int i = 0; i < 64; i++) y[i * 32 + threadIdx.x] = r[63 - i] * r[i] + s[0];
    }
    """
    args = [arg("x", (2048,)), arg("y", (2048,), role="out")]
    kernel = SourceKernel(
        "spill", source, args, block=32, shared_bytes=1024, flags=["-maxrregcount=24"]
    ).kernel("cuda")
    resources = compile_kernel(kernel, SM90, out_dir=tmp_path, compiler=compiler).resources
    assert resources["spill_bytes"] == (
        resources["spill_store_bytes"] + resources["spill_load_bytes"]
    )
    assert resources["spill_bytes"] > 0
    assert resources["shared_bytes"] == 1024
    assert resources["registers"] <= 24


@pytest.mark.parametrize("compiler", COMPILERS)
def test_flags_choose_another_architecture(compiler, tmp_path):
    source = 'extern "C" __global__ void f(int *y) { y[0] = ARCH_CHECK; }'
    kernel = SourceKernel(
        "f",
        "#if __CUDA_ARCH_FEAT_SM90_ALL\n#define ARCH_CHECK 1\n#endif\n" + source,
        [arg("y", (1,), "int32", role="out")],
        flags=["-gencode=arch=compute_90a,code=sm_90a"],
    ).kernel("cuda")
    assert compile_kernel(kernel, SM90, out_dir=tmp_path, compiler=compiler).artifact
    with pytest.raises(CompileError, match="ARCH_CHECK"):
        compile_kernel(replace(kernel, flags=()), SM90, out_dir=tmp_path, compiler=compiler)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_refusal_has_the_line_and_a_timeout_is_another_thing(compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(CompileError, match=r'kernel.cu\(\d+\): error: identifier "oops"'):
        compile_kernel(reverse("oops"), SM90, out_dir=tmp_path, compiler=compiler)
    with pytest.raises(CompileTimeout):
        compile_kernel(reverse("9.0f"), SM90, out_dir=tmp_path, compiler=compiler, timeout_s=0.01)
    assert compile_kernel(reverse("9.0f"), SM90, out_dir=tmp_path, compiler=compiler).artifact


FORMS = [
    "__global__ void reverse",
    'extern "C" void reverse',
    'extern "C" __device__ void reverse',
    "template <int M> __global__ void reverse",
]


@pytest.mark.many_cases
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_cubin_without_the_kernel_to_launch_is_refused(compiler, form, tmp_path):
    text = SOURCE.replace('extern "C" __global__ void reverse', form)
    with pytest.raises(CompileError, match="reverse"):
        compile_kernel(replace(reverse(), source=text), SM90, out_dir=tmp_path, compiler=compiler)


@needs_nvcc
def test_a_killed_nvcc_leaves_nothing_behind(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with pytest.raises(CompileTimeout):
        compile_kernel(reverse("10.0f"), SM90, out_dir=tmp_path, timeout_s=0.15)
    assert not list(scratch.iterdir())


@needs_nvcc
def test_code_that_is_equal_has_one_hash_unless_it_is_launched_differently(tmp_path):
    def code_hash(kernel):
        return compile_kernel(kernel, SM90, out_dir=tmp_path).code_hash

    base = reverse()
    assert code_hash(base) == code_hash(reverse("(1.0f + 1.0f)")) != code_hash(reverse("3.0f"))
    moved = replace(base, calls=(call("reverse", ["x", "y"], 2, 64),))
    assert code_hash(moved) != code_hash(base)


@needs_nvcc
def test_where_lines_come_from_is_no_code(tmp_path):
    def code_hash(text):
        kernel = reverse(flags=["-lineinfo"])
        kernel = replace(kernel, source=text + kernel.source)
        return compile_kernel(kernel, SM90, out_dir=tmp_path).code_hash

    assert code_hash("") == code_hash('#line 40 "a_file_of_a_longer_name.cu"\n')


def test_without_nvrtc_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("autotune.runtime.compile.cuda_compilers._wheel_roots", list)
    monkeypatch.setattr("autotune.utils.environment.toolkit_roots", lambda: [tmp_path])
    with pytest.raises(CompilerMissing, match=r"autotune\[nvrtc\]"):
        compile_kernel(reverse(), SM90, out_dir=tmp_path, compiler="nvrtc")


def test_without_nvcc_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("autotune.utils.environment.toolkit_roots", lambda: [tmp_path])
    with pytest.raises(CompilerMissing, match="install the CUDA toolkit"):
        compile_kernel(reverse(), SM90, out_dir=tmp_path)


SPELLED = {
    "-O3 -Xcompiler -O3 -lineinfo": ["-lineinfo"],
    "-Xptxas -dlcm=cg,-O1 --ptxas-options=-v": [
        "--ptxas-options=-dlcm=cg", "--ptxas-options=-O1", "--ptxas-options=-v",
    ],
    "-DX=1 -D Y=2": ["--define-macro=X=1", "--define-macro=Y=2"],
    r"-DX=f(1\,2),Y": ["--define-macro=X=f(1,2)", "--define-macro=Y"],
    "-std c++17 --std=c++14": ["--std=c++17", "--std=c++14"],
    "-isystem=/a -I /b": ["--include-path=/a", "--include-path=/b"],
    "-include a.h": ["--pre-include=a.h"],
    "-maxrregcount 32": ["-maxrregcount", "32"],
    "-arch sm_80 -gencode=arch=a,code=b -code sm_80": [],
}  # fmt: skip


@pytest.mark.parametrize("flags", SPELLED)
def test_flags_of_nvcc_are_spelled_for_nvrtc(flags):
    assert nvrtc_flags(tuple(flags.split())) == SPELLED[flags]


ARCHITECTURES = {
    "-lineinfo": None,
    "-arch=sm_90a": "sm_90a",
    "--gpu-architecture sm_80": "sm_80",
    "-gencode arch=compute_90a,code=[sm_90a,compute_90a]": "sm_90a",
    "-arch=compute_80 -code=sm_86": "sm_86",
    "-arch=native": "native",
}


@pytest.mark.parametrize("flags", ARCHITECTURES)
def test_the_architecture_is_that_of_the_machine_code(flags):
    assert flag_arch(tuple(flags.split())) == ARCHITECTURES[flags]


def test_another_nvrtc_or_other_headers_compile_anew(tmp_path, monkeypatch):
    library, header = tmp_path / "lib" / "libnvrtc.so.13", tmp_path / "include" / "cuda_fp16.h"
    for path in (library, header):
        path.parent.mkdir()
        path.write_text("release 1")
    monkeypatch.setattr("autotune.runtime.compile.cuda_compilers.find_nvrtc", lambda: library)
    identities = [nvrtc_recipe(reverse(), SM90).identity]
    assert f"--include-path={header.parent}" in identities[0]
    for path in (library, header):
        path.write_text("release 20")
        identities.append(nvrtc_recipe(reverse(), SM90).identity)
    assert len(set(identities)) == 3


LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8 bytes cumulative stack size, 512 bytes smem
ptxas info    : Function properties for _Z6helperv
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""


def test_the_report_of_ptxas_is_read_per_entry():
    entries = parse_ptxas(LOG)
    assert entries["second"] == {
        "registers": 40, "shared_bytes": 512, "stack_bytes": 16,
        "spill_store_bytes": 4, "spill_load_bytes": 12,
    }  # fmt: skip
    assert entries["first"]["registers"] == 10
    kernel = replace(
        reverse(), calls=(call("first", ["x"], shared_bytes=600), call("second", ["y"]))
    )
    needs = summary(entries, kernel, {})
    assert (needs["registers"], needs["shared_bytes"], needs["spill_bytes"]) == (40, 600, 16)


@pytest.mark.parametrize("damaged", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + b"\0" * 20, b"MZ" * 40])
def test_what_is_no_elf_file_is_refused(damaged):
    with pytest.raises(ValueError, match=r"ELF file"):
        list(sections(damaged))
    assert code_bytes(damaged) == 0


@pytest.mark.skipif(cuda_device_count() > 0, reason="there is a device")
@needs_nvcc
def test_loading_without_a_device_says_so(tmp_path):
    output = compile_kernel(reverse(), SM90, out_dir=tmp_path)
    with pytest.raises(DeviceError, match="cuda:0: there is no such device"):
        load(output.artifact, reverse(), cuda())


@needs_nvcc
@pytest.mark.parametrize(
    ("source", "named"),
    [
        (SOURCE.replace(" reverse(", " another("), "it has another"),
        (SOURCE.replace('extern "C" ', ""), "it has _Z7reversePKfPf"),
    ],
)
def test_a_cubin_without_the_kernel_is_refused_where_it_is_compiled(source, named, tmp_path):
    kernel = replace(reverse(), source=f"#define N 64\n#define FACTOR 2\n{source}")
    with pytest.raises(CompileError, match=rf"no kernel 'reverse', {named}; declare it as"):
        compile_kernel(kernel, SM90, out_dir=tmp_path)


@needs_nvcc
def test_a_kernel_without_c_linkage_is_compiled_by_its_cpp_name(tmp_path):
    text = f"#define N 64\n#define FACTOR 2\n{SOURCE}"
    plain = replace(reverse(), source=text.replace('extern "C" ', ""))
    with pytest.raises(CompileError, match="'::reverse' without `extern"):
        compile_kernel(plain, SM90, out_dir=tmp_path)
    named = replace(plain, calls=tuple(replace(one, entry="::reverse") for one in plain.calls))
    assert compile_kernel(named, SM90, out_dir=tmp_path).artifact
    with pytest.raises(CompileError, match="one of `extern \"C\"` is 'reverse'"):
        compile_kernel(replace(named, source=text), SM90, out_dir=tmp_path)


@needs_nvcc
def test_an_nvcc_that_writes_nothing_is_no_verdict_and_is_quoted(tmp_path):
    with pytest.raises(CompilerCrashed, match=r"success but wrote no \.cubin[\s\S]*NVVM_BRANCH"):
        compile_kernel(reverse(flags=["--dryrun"]), SM90, out_dir=tmp_path)


def test_what_is_no_cubin_is_refused(tmp_path, monkeypatch):
    fake = tmp_path / "nvcc"
    fake.write_text(
        f"#!{sys.executable}\nimport sys\nif '--version' in sys.argv: print('1'); sys.exit()\n"
        "open(sys.argv[sys.argv.index('-o') + 1], 'w').write('// PTX')\n"
    )
    fake.chmod(0o755)
    monkeypatch.setattr("autotune.runtime.compile.toolchain.find_nvcc", lambda: str(fake))
    monkeypatch.setattr("autotune.runtime.compile.pycuda_nvcc.has_pycuda_compiler", lambda: False)
    with pytest.raises(
        CompileError, match=r"wrote no cubin: not a 64-bit.*ask for another output"
    ):
        compile_kernel(reverse(), SM90, out_dir=tmp_path)


def test_a_compiler_that_misses_a_function_is_explained(tmp_path):
    kernel = SourceKernel("absent", SOURCE, [arg("x", (64,)), arg("y", (64,), role="out")],
                          {"N": 64, "FACTOR": 2}, block=64).kernel("cuda")  # fmt: skip
    with pytest.raises(CompileError, match="the source has no function absent"):
        compile_kernel(kernel, Target("cuda -emulate"), out_dir=tmp_path)
