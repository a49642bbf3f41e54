"""What the emulator offers of CUDA C++ computes what a device computes."""

import numpy as np
import pytest

from autotune.emulator import run_emulated
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg, call, workspace

F32 = np.float32


def run(text, arrays, written=-1, orders=(0, 1, 2), name="f", **options):
    """Run an entry on arrays, of which one is written; return that one."""
    written %= len(arrays)
    dtypes = [a.dtype.name for a in arrays]
    args = [
        arg(f"a{i}", array.shape, dtypes[i], "out" if i == written else "in")
        for i, array in enumerate(arrays)
    ]
    kernel = SourceKernel(name, text, args, **{"grid": 1, **options}).kernel("cuda")
    run_emulated(kernel, arrays, orders)
    return arrays[written]


def one_per_thread(expression, *inputs, dtype="float32", ctype="float", prelude=""):
    """Evaluate a CUDA expression of a, b, c in each thread."""
    names = "abc"[: len(inputs)]
    ctypes = {"float32": "float", "int32": "int", "uint32": "unsigned", "float64": "double"}
    parameters = [
        f"const {ctypes[x.dtype.name]}* p{n}" for n, x in zip(names, inputs, strict=True)
    ]
    loads = "".join(f"auto {n} = p{n}[i]; " for n in names)
    text = f"""{prelude}
extern "C" __global__ void f({", ".join(parameters)}, {ctype}* out) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {loads}
  out[i] = {expression};
}}"""
    out = np.zeros(inputs[0].shape, dtype)
    return run(text, [*inputs, out], orders=(0,), block=inputs[0].size)


X = np.linspace(0.1, 3.0, 64, dtype=F32)
Y = np.linspace(-2.0, 2.0, 64, dtype=F32)
I = np.arange(-32, 32, dtype=np.int32)  # noqa: E741


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("expf(a)", np.exp(X)),
        ("__expf(a) + __logf(a)", np.exp(X) + np.log(X)),
        ("rsqrtf(a)", 1 / np.sqrt(X)),
        ("fmaf(a, b, 1.f)", X * Y + 1),
        ("fmaxf(a, b) - fminf(a, b)", abs(X - Y)),
        ("max(a, b) + min(a, 1)", np.maximum(X, Y) + np.minimum(X, 1)),
        ("powf(a, 2.f) * tanhf(b)", X**2 * np.tanh(Y)),
        ("__fdividef(b, a)", Y / X),
        ("__saturatef(b)", np.clip(Y, 0, 1)),
        ("__int_as_float(__float_as_int(b) & 0x7fffffff)", abs(Y)),
        ("__ldg(pa + (i ^ 1))", X[np.arange(64) ^ 1]),
        ("floorf(b) + ceilf(b) + truncf(b) + rintf(b)",
         np.floor(Y) + np.ceil(Y) + np.trunc(Y) + np.rint(Y)),
        ("isnan(b) ? 1.f : erff(b) * 0 + abs(b)", abs(Y)),
    ],
)  # fmt: skip
def test_float_functions(expression, expected):
    np.testing.assert_allclose(one_per_thread(expression, X, Y), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("__popc(a)", [bin(v & 0xFFFFFFFF).count("1") for v in I.tolist()]),
        ("__clz(a)", [32 - (v & 0xFFFFFFFF).bit_length() for v in I.tolist()]),
        ("max(a, 3) + min(a, -3)", np.maximum(I, 3) + np.minimum(I, -3)),
        ("__mul24(a, 5) + __mulhi(a, 1 << 31)", I * 5 + (I.astype(np.int64) * -(2**31) >> 32)),
        ("__dp4a(0x01020304, 0x01010101, a)", I + 10),
        ("__byte_perm(a, 0, 0x0000)", (I & 0xFF) * 0x01010101),
    ],
)
def test_integer_functions(expression, expected):
    result = one_per_thread(expression, I, dtype="int32", ctype="int")
    np.testing.assert_array_equal(result, np.array(expected).astype(np.int32))


@pytest.mark.many_cases
@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 65504.0, 65519.0, 6e-8, 3e-5, 1 / 3, np.inf])
def test_half_rounds_as_numpy(value):
    values = np.full(4, value, F32)
    result = one_per_thread("__half(a)", values, prelude="#include <cuda_fp16.h>")
    np.testing.assert_array_equal(result, values.astype(np.float16).astype(F32))


def test_every_half_widens_and_narrows_to_itself():
    bits = np.arange(65536, dtype=np.uint32)
    text = """#include <cuda_fp16.h>
extern "C" __global__ void f(const unsigned* a, float* b) {
  int i = blockIdx.x * 1024 + threadIdx.x;
  __half h = __ushort_as_half((unsigned short)a[i]);
  __half again = __float2half(__half2float(h));
  b[i] = h == again || __hisnan(h) ? __half2float(h) : -12345.f;
}"""
    out = run(text, [bits, np.zeros(65536, F32)], orders=(0,), grid=64, block=1024)
    np.testing.assert_array_equal(out, bits.astype(np.uint16).view(np.float16).astype(F32))


def test_bfloat16_rounds_to_nearest_even():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    values = np.random.default_rng(0).standard_normal(256).astype(F32) * 100
    result = one_per_thread("__nv_bfloat16(a)", values, prelude="#include <cuda_bf16.h>")
    np.testing.assert_array_equal(result, values.astype(ml_dtypes.bfloat16).astype(F32))


def test_half_arithmetic_rounds_each_step():
    half = X.astype(np.float16), Y.astype(np.float16)
    result = one_per_thread(
        "__half2float(__half(a) * __half(b) + __half(1.0f))",
        X,
        Y,
        prelude="#include <cuda_fp16.h>",
    )
    expected = (half[0] * half[1] + np.float16(1)).astype(F32)
    np.testing.assert_array_equal(result, expected)


def test_pairs_of_halves():
    text = """#include <cuda_fp16.h>
extern "C" __global__ void f(const float* a, float* b) {
  int i = threadIdx.x;
  __half2 v = __floats2half2_rn(a[2 * i], a[2 * i + 1]);
  v = __hfma2(v, v, __float2half2_rn(1.f)) + __half2half2(__low2half(v));
  float2 r = __half22float2(v);
  *(float2*)(b + 2 * i) = r;
}"""
    a = np.arange(16, dtype=F32)
    out = run(text, [a, np.zeros(16, F32)], block=8)
    np.testing.assert_array_equal(out, a * a + 1 + a[np.arange(16) & ~1])


def test_vector_types_load_and_store_together():
    text = """extern "C" __global__ void f(const float* a, float* b) {
  float4 v = reinterpret_cast<const float4*>(a)[threadIdx.x];
  reinterpret_cast<float4*>(b)[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
}"""
    a = np.arange(64, dtype=F32)
    out = run(text, [a, np.zeros(64, F32)], block=16)
    np.testing.assert_array_equal(out.reshape(16, 4), a.reshape(16, 4)[:, ::-1])


def test_shuffles_follow_the_hardware_at_the_edges():
    text = """extern "C" __global__ void f(const int* a, int* b) {
  int t = threadIdx.x, v = a[t];
  const unsigned all = 0xffffffffu;
  b[t] = __shfl_up_sync(all, v, 3);
  b[t + 32] = __shfl_down_sync(all, v, 3, 8);
  b[t + 64] = __shfl_xor_sync(all, v, 5);
  b[t + 96] = __shfl_sync(all, v, 35);
  b[t + 128] = __shfl_sync(all, v, 1, 4);
}"""
    lane = np.arange(32, dtype=np.int32)
    out = run(text, [lane, np.zeros(160, np.int32)], block=32).reshape(5, 32)
    np.testing.assert_array_equal(out[0], np.where(lane >= 3, lane - 3, lane))
    np.testing.assert_array_equal(out[1], np.where(lane % 8 < 5, lane + 3, lane))
    np.testing.assert_array_equal(out[2], lane ^ 5)
    np.testing.assert_array_equal(out[3], 3)
    np.testing.assert_array_equal(out[4], lane // 4 * 4 + 1)


def test_votes_and_warp_reductions():
    text = """extern "C" __global__ void f(const int* a, int* b) {
  int t = threadIdx.x, v = a[t];
  b[t] = __ballot_sync(0xffffffffu, v % 3 == 0);
  b[t + 32] = __any_sync(0xffffffffu, v == 31) + 2 * __all_sync(0xffffffffu, v == 31);
  b[t + 64] = __reduce_add_sync(0xffffffffu, v) + __reduce_max_sync(0xffffffffu, v);
  b[t + 96] = t < 16 ? __reduce_min_sync(0xffffu, v - 7) : __syncthreads_count(0);
}"""
    text = text.replace(": __syncthreads_count(0)", ": 0")
    out = run(text, [np.arange(32, dtype=np.int32), np.zeros(128, np.int32)], block=32)
    out = out.reshape(4, 32)
    assert set(out[0].view(np.uint32).tolist()) == {sum(1 << i for i in range(0, 32, 3))}
    assert (out[1] == 1).all()
    assert (out[2] == 496 + 31).all()
    assert out[3].tolist() == [-7] * 16 + [0] * 16


def test_block_votes_count_all_threads():
    text = """extern "C" __global__ void f(const int* a, int* b) {
  int t = threadIdx.x;
  b[t] = __syncthreads_count(a[t] < 40) + 1000 * __syncthreads_or(a[t] == 3)
       + 10000 * __syncthreads_and(a[t] < 99);
}"""
    out = run(text, [np.arange(96, dtype=np.int32), np.zeros(96, np.int32)], block=96)
    assert (out == 40 + 1000 + 10000).all()


def test_a_block_of_1024_threads_reduces_through_templates_and_shared_memory():
    text = """
template <int N> __device__ __forceinline__ float block_sum(float v) {
  __shared__ float part[N];
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffffu, v, offset);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x < N ? part[threadIdx.x] : 0.f;
  if (threadIdx.x < 32)
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffffu, v, offset);
  return v;
}
__constant__ float half_of[1] = {0.5f};
extern "C" __global__ void __launch_bounds__(1024, 1) f(const float* __restrict__ a,
                                                         float* __restrict__ b) {
  float total = block_sum<32>(a[blockIdx.x * blockDim.x + threadIdx.x]);
  if (threadIdx.x == 0) b[blockIdx.x] = total * half_of[0];
}"""
    a = np.random.default_rng(1).random((8, 1024), F32)
    out = run(text, [a, np.zeros(8, F32)], grid=8, block=1024)
    np.testing.assert_allclose(out, a.sum(1) / 2, rtol=1e-5)


def test_grids_and_blocks_have_three_dimensions():
    text = """extern "C" __global__ void f(int* b) {
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  b[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 100 + thread;
}"""
    out = run(text, [np.zeros((24, 24), np.int32)], grid=(2, 3, 4), block=(4, 3, 2))
    np.testing.assert_array_equal(out, np.arange(24)[:, None] * 100 + np.arange(24))


def test_dynamic_and_static_shared_memory_live_together():
    text = """extern "C" __global__ void f(const float* a, float* b) {
  extern __shared__ __align__(16) unsigned char raw[];
  float* s = reinterpret_cast<float*>(raw);
  __shared__ float last[1];
  int t = threadIdx.x;
  s[t] = a[t];
  if (t == 31) last[0] = a[t];
  __syncthreads();
  b[t] = s[t ^ 31] + last[0];
}"""
    a = np.arange(32, dtype=F32)
    out = run(text, [a, np.zeros(32, F32)], block=32, shared_bytes=128)
    np.testing.assert_array_equal(out, a[::-1] + 31)


def test_global_atomics_add_up_over_blocks():
    text = """extern "C" __global__ void f(const float* a, float* b) {
  float v = a[blockIdx.x * 32 + threadIdx.x];
  atomicAdd(b, v);
  atomicMax((int*)b + 1, (int)v);
}"""
    a = np.arange(128, dtype=F32)
    args = [arg("a", (128,)), arg("b", (2,), role="inout")]
    kernel = SourceKernel("f", text, args, grid=4, block=32).kernel("cuda")
    b = np.zeros(2, F32)
    run_emulated(kernel, [a, b])
    assert b[0] == a.sum()
    assert b.view(np.int32)[1] == 127


def test_the_numbers_of_a_vector_are_added_atomically():
    text = """
extern "C" __global__ void f(float* sums) {
  if (threadIdx.x + blockIdx.x == 0)
    for (int i = 0; i < 8; ++i) sums[i] = 0;
  __syncthreads();
  atomicAdd(reinterpret_cast<float2*>(sums), make_float2(1, threadIdx.x));
  float4 old = atomicAdd(reinterpret_cast<float4*>(sums + 4), make_float4(1, 2, 3, 4));
  if (old.x == 63) atomicAdd(sums + 2, old.w);
}"""
    found = run(text, [np.zeros(8, F32)], block=64)
    np.testing.assert_array_equal(found, [64, 2016, 252, 0, 64, 128, 192, 256])


def test_several_kernels_share_a_workspace():
    text = """
extern "C" __global__ void part(const float* a, float* w) {
  atomicAdd(w + blockIdx.x, a[blockIdx.x * 32 + threadIdx.x]);
}
extern "C" __global__ void whole(const float* w, float* b) {
  b[0] = w[0] + w[1] + w[2] + w[3];
}"""
    kernel = SourceKernel(
        "sum",
        text,
        [arg("a", (128,)), arg("b", (1,), role="out")],
        calls=[call("part", ["a", "w"], 4, 32), call("whole", ["w", "b"])],
        workspace=[workspace("w", (4,), zero=True)],
    ).kernel("cuda")
    a, b = np.arange(128, dtype=F32), np.zeros(1, F32)
    run_emulated(kernel, [a, b])
    assert b[0] == a.sum()


def test_cooperative_groups_reduce_by_tiles():
    text = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void f(const float* a, float* b) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  __shared__ float part[4];
  float sum = cg::reduce(tile, a[block.thread_rank()], cg::plus<float>());
  if (tile.thread_rank() == 0) part[tile.meta_group_rank()] = sum;
  block.sync();
  b[threadIdx.x] = part[threadIdx.x % 4] + tile.ballot(tile.thread_rank() == 2);
}"""
    a = np.arange(64, dtype=F32)
    out = run(text, [a, np.zeros(64, F32)], block=64)
    np.testing.assert_array_equal(out, np.tile(a.reshape(4, 16).sum(1), 16) + 4)


@pytest.mark.parametrize("header", ["memory", "functional", "regex"])
def test_headers_of_the_cxx_library_can_be_included(header):
    """One has a word of CUDA within an attribute of GCC."""
    twice = "__noinline__ __device__ float twice(float x) { return 2 * x; }"
    prelude = f"#include <{header}>\n{twice}"
    values = np.arange(4, dtype=F32)
    assert (one_per_thread("twice(a)", values, prelude=prelude) == 2 * values).all()


VIRTUAL = """
struct Operation { int step; virtual __device__ int apply(int x) = 0; };
struct Add : Operation { __device__ int apply(int x) override { return x + step; } };
struct Multiply : Operation { __device__ int apply(int x) override { return x * step; } };
__shared__ char places[2][sizeof(Multiply)];
extern "C" __global__ void f(int* out) {
  if (threadIdx.x == 0) {
    (new (places[0]) Add)->step = 5;
    (new (places[1]) Multiply)->step = 3;
  }
  __syncthreads();
  Add own;
  own.step = 1;
  Operation* const one = reinterpret_cast<Operation*>(places[threadIdx.x % 2]);
  Operation* const other = &own;
  out[threadIdx.x] = other->apply(one->apply(threadIdx.x));
}"""


def test_virtual_functions_are_called_of_objects_in_local_and_shared_memory():
    found = run(f"#include <new>\n{VIRTUAL}", [np.zeros(32, np.int32)], block=32)
    at = np.arange(32)
    np.testing.assert_array_equal(found, np.where(at % 2, at * 3, at + 5) + 1)


def test_the_address_of_virtual_functions_is_watched_as_other_memory():
    text = """#include <new>
struct Operation { virtual __device__ int apply() { return 2; } };
__shared__ char place[sizeof(Operation)];
extern "C" __global__ void f(int* out) {
  if (threadIdx.x == 0) new (place) Operation;
  out[threadIdx.x] = reinterpret_cast<Operation*>(place)->apply();
}"""
    with pytest.raises(DeviceError, match=r"race on shared memory .* wrote it at f\.cu:2"):
        run(text, [np.zeros(32, np.int32)], block=32)
