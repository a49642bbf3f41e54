"""Which declarations of kernels the emulator takes, and which it refuses."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.emulator import (
    EmulatedKernel,
    compile_emulated,
    emulated,
    emulated_together,
)
from autotune.emulator.build import _rewritten
from autotune.errors import CompileError, KernelError
from autotune.kernel import SourceKernel, arg
from tests.emulator.test_language import F32, run


def scaled(name, factor):
    text = f"""extern "C" __global__ void {name}(const float* a, float* b) {{
  __shared__ float s[32];
  s[threadIdx.x] = a[threadIdx.x] * {factor};
  __syncthreads();
  b[threadIdx.x] = s[31 - threadIdx.x];
}}"""
    args = [arg("a", (32,)), arg("b", (32,), role="out")]
    return SourceKernel(name, text, args, block=32).kernel("cuda")


def test_many_kernels_share_one_library(tmp_path):
    kernels = [scaled(f"f{i}", i) for i in range(5)]
    library = compile_emulated(kernels, tmp_path / "many.so")
    a = np.arange(32, dtype=F32)
    for i, kernel in enumerate(kernels):
        b = np.zeros(32, F32)
        EmulatedKernel(library, kernel).run([a, b])
        np.testing.assert_array_equal(b, a[::-1] * i)


def test_kernels_in_one_library_may_include_the_same_headers(tmp_path):
    kernels = []
    for name in ("f", "g"):
        kernel = scaled(name, 2)
        text = kernel.source.replace("__syncthreads()", "groups::this_thread_block().sync()")
        text = f"#include <cooperative_groups.h>\nnamespace groups = cooperative_groups;\n{text}"
        kernels.append(replace(kernel, source=text))
    assert compile_emulated(kernels, tmp_path / "two.so").exists()


def test_kernels_in_one_library_need_different_entries():
    with pytest.raises(KernelError, match="two kernels have an entry 'same'"):
        emulated_together([scaled("same", 1), scaled("same", 2)])


def test_an_emulated_kernel_is_plain_c_with_one_entry_for_each_call():
    kernel = scaled("f", 2)
    twice = SourceKernel(
        "g", kernel.source, kernel.args, calls=[*kernel.calls, *kernel.calls]
    ).kernel("cuda")
    host = emulated(twice)
    assert host.language == "c"
    assert [one.entry for one in host.calls] == ["f", "f__1"]
    assert host.args == twice.args


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    kernel = scaled("f", 2)
    loaded = EmulatedKernel(compile_emulated(kernel, tmp_path / "f.so"), kernel)
    with pytest.raises(KernelError, match="'a' is float32"):
        loaded.run([np.zeros(31, F32), np.zeros(32, F32)])
    with pytest.raises(KernelError, match=r"takes 2 arrays .a, b., got 1"):
        loaded.run([np.zeros(32, F32)])


def test_the_many_ways_to_write_declarations():
    text = """
#include <cuda_runtime.h>
#include <cstdint>
#include <float.h>
#include <algorithm>
#include <type_traits>
extern __shared__ float whole_file[];
__constant__ int three[3] = {1, 2, 3};
static const __device__ float factor = 2.0f;
__device__ int touched;
struct __align__(8) Two { float a, b; };
template <typename T, int N> struct Tile { T at[N]; };
template <typename T> __device__ __noinline__ T twice(const T& v) { return v + v; }
__device__ __forceinline__ float2 operator+(float2 a, float2 b) {
  return make_float2(a.x + b.x, a.y + b.y);
}
template <int N> __global__ void helper(float*) {}
__host__ __device__ constexpr int square(int v) { return v * v; }
#define REPEAT _Pragma("unroll") for (int i = 0; i < 2; ++i)
extern "C" __global__ void __launch_bounds__(64, 2)
f(const float *__restrict__ a, float *__restrict__ b) {
  __shared__ float grid[2][64], line[64];
  __shared__ __align__(16) float4 quads[4];
  __shared__ alignas(16) unsigned char raw[64];
  alignas(16) __shared__ float other[64];
  static __shared__ int count;
  volatile __shared__ int seen[64];
  __shared__ Tile<float, 64> tile;
  __shared__ union { int i[64]; float f[64]; } both;
  const uint32_t t = threadIdx.x, lane = t & (warpSize - 1u);
  if (t == 0) { count = 0; touched = 7; }
  grid[0][t] = a[t];
  grid[1][t] = line[t] = a[t] * factor;
  other[t] = tile.at[t] = 1.0f;
  both.f[t] = 0.5f;
  seen[t] = 1;
  raw[t] = 2;
  whole_file[t] = 3.0f;
  if (t < 4) quads[t] = make_float4(t, t, t, t);
  __syncthreads();
  atomicAdd(&count, (int)min(t, 5u) + max(0, -1));
  __syncthreads();
  auto more = [&](float v) { return v + twice(1.0f); };
  float sum = 0.f;
  REPEAT { sum += grid[i][63 - t]; }
  float2 pair = make_float2(sum, 1.f) + make_float2(0.f, square(2));
  const float4 quad = reinterpret_cast<const float4*>(&quads[t / 16])[0];
  if constexpr (std::is_same<float, float>::value) sum = more(pair.x);
  Two two = {quad.x, static_cast<float>(three[t % 3])};
  b[t] = sum + pair.y + two.a + two.b + other[63 - t] + tile.at[t] + both.f[63 - t] + seen[63 - t]
         + raw[63 - t] + whole_file[63 - t] + line[t] * 0 + (lane > 31 ? FLT_MAX : 0.f)
         + (count == 305 ? 0.f : 1000.f) + (touched - 7);
}"""
    a = np.arange(64, dtype=F32)
    out = run(text, [a, np.zeros(64, F32)], block=64, shared_bytes=256)
    t = np.arange(64)
    expected = a[::-1] * 3 + 2 + 5 + t // 16 + 1 + t % 3 + 1 + 1 + 0.5 + 1 + 2 + 3
    np.testing.assert_array_equal(out, expected.astype(F32))


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "head",
    [
        "__global__ void f(float* a) {",
        'extern "C" void f(float* a) {',
        'extern "C" __device__ void f(float* a) {',
        "void f(float* a) {",
        "template <int N> __global__ void f(float* a) {",
        'extern "C" __global__ void g(float* a) {',
        'extern "C" __global__ void g(float* a) { a[1] = 1; } __global__ void f(float* a) {',
    ],
)
def test_what_a_device_could_not_launch_is_refused_with_the_cure(head):
    with pytest.raises(CompileError) as caught:
        run(f"{head} a[threadIdx.x] = 0; }}", [np.ones(8, F32)], block=8)
    assert "the source has no kernel 'f'" in str(caught.value)
    assert 'declare it as `extern "C" __global__ void f(...)`' in str(caught.value)


@pytest.mark.parametrize(
    "head",
    [
        '#define KERNEL extern "C" __global__\nKERNEL void f(float* a) {',
        'extern "C" { __global__ void f(float* a) {',
        'extern "C" void __global__ __launch_bounds__(8) f(float* a) {',
        'extern "C" __global__ void f(float*);\n__global__ void f(float* a) {',
    ],
)
def test_a_kernel_may_be_declared_in_several_ways(head):
    tail = "}" * head.count("{")
    out = run(f"{head} a[threadIdx.x] = threadIdx.x; {tail}", [np.ones(8, F32)], block=8)
    np.testing.assert_array_equal(out, np.arange(8))


def test_a_kernel_without_c_linkage_is_named_as_cpp_names_it():
    text = "__global__ void f(float* a) { a[threadIdx.x] = threadIdx.x; }"
    with pytest.raises(CompileError, match="'::f' without `extern"):
        run(text, [np.ones(8, F32)], block=8)
    out = run(text, [np.ones(8, F32)], block=8, name="::f")
    np.testing.assert_array_equal(out, np.arange(8))


@pytest.mark.parametrize("read", ["tex1Dfetch<float>(t, i)", "tex2D<float4>(t, i, 0.5f).x"])
def test_a_kernel_that_reads_a_texture_is_told_that_there_are_none(read, tmp_path):
    text = f"""extern "C" __global__ void f(cudaTextureObject_t t, float* y) {{
  int i = threadIdx.x;
  y[i] = {read};
}}"""
    args = [arg("t", (), "uint64"), arg("y", (32,), role="out")]
    kernel = SourceKernel("f", text, args, block=32).kernel("cuda")
    with pytest.raises(CompileError, match=r"the emulator has no textures .* AUTOTUNE_EMULATE"):
        compile_emulated([kernel], tmp_path / "f.so")


@pytest.mark.parametrize(("more", "hits"), [({}, 2), ({"OPERAND": '"=r"(word)'}, 0)])
def test_the_text_behind_knobs_is_rewritten_once_for_all_their_values(more, hits, tmp_path):
    """But where a knob may be a part of an asm statement in that text."""
    operand = "OPERAND" if more else '"=r"(word)'
    text = f"""extern "C" __global__ void knobs(unsigned* a) {{
  extern __shared__ unsigned words[];
  unsigned word;
  asm("mov.u32 %0, 7;" : {operand});
  words[threadIdx.x] = word + MORE;
  a[threadIdx.x] = words[threadIdx.x];
}}"""
    args = [arg("a", (32,), "uint32", "out")]
    before = _rewritten.cache_info().hits
    for number in range(3):
        defines = {"MORE": number, **more}
        source = SourceKernel("knobs", text, args, defines, block=32, shared_bytes=128)
        emulated(source.kernel("cuda"))
    assert _rewritten.cache_info().hits - before == hits
    library = compile_emulated(source.kernel("cuda"), tmp_path / "knobs.so")
    values = np.zeros(32, "uint32")
    EmulatedKernel(library, source.kernel("cuda")).run([values])
    assert (values == 9).all()
