"""Common mistakes in kernels are reported with their line; what only looks like one is not."""

import re
from pathlib import Path

import numpy as np
import pytest

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg
from tests.emulator import flags

# Each is launched with two blocks of 64 threads, on 128 floats `a`, and `b`, which are zero; `t`
# is the thread, `i` its element. Lines that may be named have a `@`; what is said follows.
MISTAKES = {
    "tile-off-by-one": (
        """__shared__ float s[64];
        s[t] = a[i];
        __syncthreads();
        b[i] = s[t] + s[t + 1];  // @""",
        r"thread .63,0,0. .* accesses item 64 of an array of type 'float \[64\]'",
    ),
    "tile-reused-without-barrier": (
        """__shared__ float s[64];
        float sum = 0;
        for (int k = 0; k < 2; ++k) {
          s[t] = a[k * 64 + t];  // @
          __syncthreads();
          sum += s[63 - t];
        }
        b[i] = sum;""",
        "race on shared memory",
    ),
    "reduction-without-syncwarp": (
        """__shared__ float s[64];
        s[t] = a[i];
        __syncthreads();
        if (t < 32) {
          s[t] += s[t + 32];  // @
          s[t] += s[t + 16];  // @
        }
        b[i] = s[0];""",
        "race on shared memory",
    ),
    "shuffle-of-lanes-that-left": (
        """float v = a[i];
        if (t % 32 < 16) v += __shfl_down_sync(0xffffffffu, v, 8);  // @
        __syncthreads();
        b[i] = v;""",
        r"__shfl_down_sync\(0xffffffff\)",
    ),
    "shuffle-mask-of-half-a-warp": (
        "b[i] = __shfl_xor_sync(0x0000ffffu, a[i], 1);  // @",
        r"lane \d+, which the mask 0x0000ffff does not name",
    ),
    "barrier-in-a-branch": (
        """__shared__ float s[64];
        if (t < 40) {
          s[t] = a[i];
          __syncthreads();  // @
        } else {
          s[t] = 0;
          __syncthreads();
        }
        b[i] = s[63 - t];""",
        "divergent|waits in line",
    ),
    "barrier-in-a-loop-of-another-length": (
        """for (int k = 0; k <= t / 32; ++k) {
          __syncthreads();  // @
        }
        __syncthreads();
        b[i] = 1;""",
        "divergent|waits in line",
    ),
    "misaligned-vector": (
        "b[i] = reinterpret_cast<const float4*>(a + i % 64)->x;  // @",
        "not aligned to 16",
    ),
    "vector-past-the-end": (
        "b[i] = reinterpret_cast<const float4*>(a)[i].x;  // @",
        "reads 4 bytes out of bounds",
    ),
    "atomic-and-plain": (
        """__shared__ int count;
        if (t == 0) count = 0;
        __syncthreads();
        if (t % 2) atomicAdd(&count, 1);
        else count = count + 1;  // @
        __syncthreads();
        b[i] = count;""",
        "race on shared memory",
    ),
    "local-array-off-by-one": (
        """float own[4] = {};
        for (int k = 0; k <= 4; ++k) own[k] = a[k];  // @
        b[i] = own[t % 4];""",
        r"accesses item 4 of an array of type 'float \[4\]'",
    ),
    "zeros-copied-where-others-read": (
        """__shared__ __align__(16) float s[64];
        s[t] = 1;
        __syncthreads();
        b[i] = s[63 - t];  // @
        __pipeline_memcpy_async(s + t, a, 4, 4);  // @
        __pipeline_commit();
        __pipeline_wait_prior(0);""",
        "race on shared memory",
    ),
    "index-that-overflows": (
        """int stride = 1 << 30;
        b[i] = a[i * stride * 2 + (t == 63 ? 1 << 31 : 0)];  // @""",
        "reads 4 bytes",
    ),
    "negative-index": ("b[i] = a[i - 1];  // @", "reads 4 bytes out of bounds .*byte -4"),
    "copy-past-the-end": (
        """__shared__ __align__(16) float s[256];
        __pipeline_memcpy_async(s + t * 4, a + i * 4, 16);  // @
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        b[i] = s[t];""",
        "reads 16 bytes out of bounds",
    ),
    "copy-that-is-not-waited-for": (
        """__shared__ __align__(16) float s[64];
        __pipeline_memcpy_async(s + t, a + i, 4);
        __pipeline_commit();
        __syncthreads();
        b[i] = s[t];  // @""",
        "reads shared memory .* while the asynchronous copy",
    ),
    "waited-after-the-barrier": (
        """__shared__ __align__(16) float s[64];
        __pipeline_memcpy_async(s + t, a + i, 4);
        __pipeline_commit();
        __syncthreads();
        __pipeline_wait_prior(0);
        b[i] = s[63 - t];  // @""",
        "reads shared memory .* while the asynchronous copy|race on shared memory",
    ),
    "dynamic-shared-memory-too-small": (
        """extern __shared__ float d[];
        d[t * 2] = a[i];  // @
        __syncthreads();
        b[i] = d[(63 - t) * 2];""",
        r"writes byte \d+ of dynamic shared memory .* the launch has 256 bytes",
    ),
    "blocks-that-add-without-atomics": ("b[0] = b[0] + a[i];  // @", "race on argument 'b'"),
    "last-block-without-a-fence": (
        """__shared__ bool last;
        __device__ static unsigned arrived;
        b[i] = a[i]; __syncthreads();
        if (t == 0) last = atomicAdd(&arrived, 1) % 2 == 1;
        __syncthreads();
        if (last) b[i] += b[127 - i];  // @""",
        "race on argument 'b' .* with no atomic operation and __threadfence between",
    ),
    "last-thread-without-a-fence": (
        """__shared__ float s[64]; __shared__ int arrived;
        if (t == 0) arrived = 0;
        __syncthreads();
        __threadfence_block();
        s[t] = a[i];
        if (atomicAdd(&arrived, 1) == 63)
          for (int k = 0; k < 64; ++k) b[i] += s[k];  // @""",
        "race on shared memory .* with no barrier between",
    ),
    "sum-that-is-read-before-a-barrier": (
        """__shared__ int sum;
        if (t == 0) sum = 0;
        __syncthreads();
        atomicAdd(&sum, 1);
        b[i] = sum;  // @""",
        "race on shared memory .* with no barrier between",
    ),
    "guess-that-is-stored-without-an-atomic-operation": (
        """__shared__ int most;
        if (t == 0) most = -1;
        __syncthreads();
        if (t % 2 && t > most) atomicMax(&most, t);
        if (t > most) most = t;  // @""",
        "race on shared memory .* with no barrier between",
    ),
    "write-after-reads-of-the-own-and-another-warp": (
        """__shared__ float s; s = 0; __syncthreads();
        if (t == 0 || t >= 32) b[i] = s; if (t == 0) s = b[i] + 1;  // @""",
        "race on shared memory",
    ),
    "column-in-place-of-a-row": (
        """__shared__ float s[8][9];
        s[t % 8][t / 8] = a[i];
        __syncthreads();
        b[i] = s[t / 8 + 1][t % 8];  // @""",
        r"accesses item 8 of an array of type 'float \[8\]\[9\]'",
    ),
    "index-of-an-inner-row": (
        """__shared__ float s[8][8];
        s[t / 8][t % 8 + 1] = a[i];  // @
        __syncthreads();
        b[i] = s[t / 8][t % 8];""",
        r"accesses item 8 of an array of type 'float \[8\]' at .* index a pointer",
    ),
}  # fmt: skip

# What only looks like one: it computes a[i] + 1 in each element.
RIGHT = {
    "volatile-warp-reduction": """__shared__ volatile float s[64];
        s[t] = 1; __syncwarp();
        for (int k = 16; k; k /= 2) {
          float other = s[(t & 32) + (t + k) % 32]; __syncwarp();
          s[t] = (s[t] + other) / 2; __syncwarp();
        }
        b[i] = a[i] + s[t];""",
    "early-exit-before-barriers": """__shared__ float s[64];
        b[i] = a[i] + 1;
        if (t >= 50) return;
        s[t] = a[i];
        __syncthreads();
        b[i] = s[49 - t] * 0 + a[i] + 1;""",
    "same-barrier-by-two-ways": """__shared__ float s[64];
        auto meet = [&](float v) { s[t] = v; __syncthreads(); };
        if (t < 32) meet(1); else meet(1);
        b[i] = a[i] + s[63 - t];""",
    "all-write-one-value": """__shared__ int done;
        done = 1;
        __syncthreads();
        b[i] = a[i] + done;""",
    "half-a-warp-shuffles": """float v = 1;
        if (t % 32 < 16) v = __shfl_xor_sync(0x0000ffffu, v, 1);
        else v = __shfl_xor_sync(0xffff0000u, v, 1);
        b[i] = a[i] + v;""",
    "shuffle-with-the-active-lanes": """float v = 1;
        if (t % 2) v = __shfl_sync(__ballot_sync(0xaaaaaaaau, 1), v, 1);
        b[i] = a[i] + v;""",
    "copies-of-which-the-last-are-still-under-way": """__shared__ __align__(16) float s[3][64];
        for (int k = 0; k < 3; ++k) {
          __pipeline_memcpy_async(&s[k][t], a + i, 4); __pipeline_commit();
        }
        __pipeline_wait_prior(2);
        b[i] = s[0][t] + 1;""",
    "a-copy-of-no-bytes": """__shared__ __align__(16) float s[64];
        __pipeline_memcpy_async(s + t, t < 32 ? a + i : a, 4, t < 32 ? 0 : 4);
        __pipeline_commit(); __pipeline_wait_prior(0); __syncthreads();
        b[i] = (t < 32 ? s[t] : a[i]) + s[32 + t % 32] + 1;""",
    "structs-of-which-threads-write-parts": """struct Two { float x, y; };
        __shared__ Two s[64];
        s[t].x = a[i]; s[63 - t].y = 1;
        __syncthreads();
        Two both = s[t]; b[i] = both.x + both.y;""",
    "padded-structs-by-value": """struct Padded { char c; double d; };
        __shared__ Padded s[64];
        Padded own; own.c = 1; own.d = a[i];
        s[t] = own;
        auto sum = [](Padded v) { return (float)v.d + v.c; };
        b[i] = sum(s[t]);""",
    "union-of-vector-and-words": """union { float4 v; float f[4]; } u, w;
        u.v = reinterpret_cast<const float4*>(a)[i / 4];
        w = u;
        b[i] = w.f[i % 4] + 1;""",
    "vectors-by-pairs-of-halves": """__shared__ __half2 s[64];
        s[t] = __floats2half2_rn(1.f, 0.f);
        auto add = [](__half2 x, __half2 y) { return __hadd2(x, y); };
        b[i] = a[i] + __low2float(add(s[t], __half2half2(__float2half(0.f))));""",
    "rows-by-a-pointer": """__shared__ float s[8][8];
        float* const flat = &s[0][0];
        flat[t] = a[i];
        __syncthreads();
        float last = 0;
        for (const float* at = s[t / 8]; at != s[t / 8 + 1]; ++at) last = *at;
        b[i] = *(s[0] + t) + 1 + (&s[0][0])[t / 8 * 8 + 7] - last;""",
    "from-within-an-array": """__shared__ float s[65];
        float* const second = s + 1;
        second[t] = 0;
        if (t == 0) second[-1] = 1;
        __syncthreads();
        b[i] = a[i] + second[t - t % 64 - 1] + second[t];""",
    "arrays-of-any-length": """struct Any { int count; float items[]; };
        struct Old { int count; float items[1]; };
        extern __shared__ int raw[];
        if (t < 63) reinterpret_cast<Any*>(raw)->items[t] = a[i];
        if (t == 0) reinterpret_cast<Old*>(raw)->count = 1;
        __syncthreads();
        b[i] = (t < 63 ? reinterpret_cast<Old*>(raw)->items[t] : a[i]) + raw[0];""",
    "last-thread-of-a-block-by-a-counter": """__shared__ float s[64]; __shared__ int arrived;
        if (t == 0) arrived = 0;
        __syncthreads();
        s[t] = 1;
        __threadfence_block();
        if (atomicAdd(&arrived, 1) == 63) {
          float sum = 0;
          for (int k = 0; k < 64; ++k) sum += s[k];
          s[0] = sum;
        }
        __syncthreads();
        b[i] = a[i] + s[0] / 64;""",
    "lock-of-threads": """__shared__ float sum; __shared__ int lock;
        if (t == 0) sum = lock = 0;
        __syncthreads();
        while (atomicCAS(&lock, 0, 1));
        __threadfence_block();
        sum = sum + 1;
        __threadfence_block();
        atomicExch(&lock, 0);
        __syncthreads();
        b[i] = a[i] + sum / 64;""",
    "sum-of-doubles-by-compare-and-swap": """__shared__ double sum;
        if (t == 0) sum = 0;
        __syncthreads();
        auto* at = reinterpret_cast<unsigned long long*>(&sum);
        unsigned long long old = *at, assumed;
        do {
          assumed = old;
          old = atomicCAS(at, assumed, __double_as_longlong(1 + __longlong_as_double(assumed)));
        } while (assumed != old);
        __syncthreads();
        b[i] = a[i] + sum / 64;""",
    "maximum-that-is-looked-at-first": """if (i) b[i] = a[i] + 1;
        const int own = __float_as_int(t / 63.f);
        if (own > *reinterpret_cast<int*>(b)) atomicMax(reinterpret_cast<int*>(b), own);""",
    "one-addition-for-all-active-lanes": """__shared__ int count;
        if (t == 0) count = 0;
        __syncthreads();
        if (t % 4 == 3) {
          const unsigned active = __activemask();
          const int first = __ffs(active) - 1;
          int place = t % 32 == first ? atomicAdd(&count, __popc(active)) : 0;
          place = __shfl_sync(active, place, first);
        }
        __syncthreads();
        b[i] = a[i] + count / 16;""",
    "active-lanes-after-others-exit": """b[i] = a[i] + 1;
        if (t % 3) return;
        b[i] = __shfl_sync(__activemask(), a[i], t % 32) + 1;""",
    "counter-that-blocks-look-at-and-the-last-sets": """if (i) b[i] = a[i] + 1;
        if (t == 0 && b[0] < 1 && atomicAdd((int*)b, 1) == 1) b[0] = 1;""",
    "last-block-by-a-counter": """__shared__ bool last;
        __device__ static unsigned arrived;
        b[i] = a[i] + 1; __threadfence(); __syncthreads();
        if (t == 0) last = atomicAdd(&arrived, 1) % 2 == 1;
        __syncthreads();
        if (last) { float v = b[127 - i]; __syncthreads(); b[i] = b[i] + v - v; }""",
}  # fmt: skip


def kernel(name, body):
    name = "of_" + name.replace("-", "_")
    text = f"""#include <cuda_fp16.h>
#include <cuda/atomic>
#include <cuda_pipeline.h>
extern "C" __global__ void {name}(const float* __restrict__ a, float* b) {{
        const int t = threadIdx.x, i = blockIdx.x * 64 + t;
        {body}
}}
"""
    args = [arg("a", (128,)), arg("b", (128,), role="inout")]
    return SourceKernel(name, text, args, grid=2, block=64, shared_bytes=256).kernel("cuda")


MISTAKES |= flags.MISTAKES
RIGHT |= flags.RIGHT
KERNELS = {
    **{name: kernel(name, body) for name, (body, _) in MISTAKES.items()},
    **{name: kernel(name, body) for name, body in RIGHT.items()},
}


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("mistakes") / "kernels.so"
    return compile_emulated(list(KERNELS.values()), out)


def run(library, name, order):
    a, b = np.arange(128, dtype="float32"), np.zeros(128, "float32")
    EmulatedKernel(library, KERNELS[name]).run([a, b], order)
    return b - a


# Each is run in one order; few of them in the others, but where all cases run.
ORDERS = [0, *(pytest.param(order, marks=pytest.mark.many_cases) for order in (1, 5))]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_with_its_line(library, name, order):
    with pytest.raises(DeviceError, match=MISTAKES[name][1]) as error:
        run(library, name, order)
    lines = KERNELS[name].source.splitlines()
    marked = [i for i, text in enumerate(lines, 1) if "@" in text]
    assert re.search(rf"(\.cu:|line )({'|'.join(map(str, marked))})\b", str(error.value))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_reported(library, name, order):
    np.testing.assert_array_equal(run(library, name, order), np.ones(128))
