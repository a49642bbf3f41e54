"""What functions take or return by value is an access: races, bounds and alignment are seen."""

import numpy as np
import pytest

from autotune.emulator import EmulatedKernel, compile_emulated
from autotune.errors import DeviceError
from autotune.kernel import SourceKernel, arg

# Lines are counted from here; the body of a kernel begins in line 20.
TEXT = """#include <cuda_fp16.h>
struct Three { float v[3]; };
struct Many { double v[5]; };
template <class T> struct Outer { struct Inner { T first, second; }; };
union Words { float4 vector; float each[4]; };
__device__ __noinline__ float x_of(float4 v) { return v.x; }
__device__ __noinline__ float x_of(Three v) { return v.v[0]; }
__device__ __noinline__ float x_of(Many v) { return v.v[0]; }
__device__ __noinline__ float x_of(Outer<float>::Inner v) { return v.first; }
__device__ __noinline__ float x_of(Words v) { Words other = v; return other.each[0]; }
__device__ __noinline__ float x_of(__half v) { return (float)v; }
__device__ __noinline__ float4 vector_of(float x) { return make_float4(x, x, x, x); }
__device__ __noinline__ Three three_of(float x) { return {{x, x, x}}; }
extern "C" __global__ void ENTRY(const float* a, float* b) {
  int t = threadIdx.x;
  const float4* vectors = reinterpret_cast<const float4*>(a);



  BODY
}
"""
# A shared array, what is written, and what is read of it.
RACES = {
    "float4": ("float4", "s[t].x = a[t];", "x_of(s[63 - t])"),
    "three": ("Three", "s[t].v[0] = a[t];", "x_of(s[63 - t])"),
    "many": ("Many", "s[t].v[0] = a[t];", "x_of(s[63 - t])"),
    "nested": ("Outer<float>::Inner", "s[t].first = a[t];", "x_of(s[63 - t])"),
    "union": ("Words", "s[t].each[0] = a[t];", "x_of(s[63 - t])"),
    "half": ("__half", "s[t] = __float2half(a[t]);", "x_of(s[63 - t])"),
    "returned-float4": ("float4", "s[t] = vector_of(a[t]);", "s[63 - t].x"),
    "returned-three": ("Three", "s[t] = three_of(a[t]);", "s[63 - t].v[0]"),
    "loaded": ("float", "s[t] = a[t];", "__ldcg(s + 63 - t)"),
    "added": ("int", "atomicAdd(s + t, (int)a[t]);", "s[63 - t]"),
}
FAULTS = {
    "read-out-of-bounds": (
        "b[t] = x_of(vectors[t]);",
        "thread .16,0,0. .* reads 16 bytes out of bounds at {}: byte 256 of argument 'a'",
    ),
    "written-out-of-bounds": (
        "((float4*)b)[t] = vector_of(1);",
        "thread .16,0,0. .* writes 16 bytes out of bounds at {}: byte 256 of argument 'b'",
    ),
    "misaligned": (
        "b[t] = x_of(*(const float4*)(a + t % 8));",
        "argument 'a' at byte 4 of type .*float4' at {}, which is not aligned to 16",
    ),
    "loaded-out-of-bounds": (
        "b[t] = __ldg(a + t + 1);", "reads 4 bytes out of bounds at {}: byte 256 of argument 'a'",
    ),
}  # fmt: skip


def identifier(name):
    return "of_" + name.replace("-", "_")


def kernel(name, body):
    name = identifier(name)
    text = TEXT.replace("ENTRY", name).replace("BODY", body)
    args = [arg("a", (64,)), arg("b", (64,), role="out")]
    return SourceKernel(name, text, args, grid=1, block=64).kernel("cuda")


def race(name, barrier):
    item, write, read = RACES[name]
    zero = "if (t == 0) for (int i = 0; i < 64; ++i) s[i] = 0; __syncthreads();"
    body = f"__shared__ {item} s[64]; {zero if name == 'added' else ''} {write} {barrier}\n"
    return kernel(name + ("-ordered" if barrier else ""), f"{body}  b[t] = {read};")


KERNELS = {
    **{name: kernel(name, body) for name, (body, _) in FAULTS.items()},
    **{name: race(name, "") for name in RACES},
    **{f"{name}-ordered": race(name, "__syncthreads();") for name in RACES},
}


@pytest.fixture(scope="module", params=["-O0", "-O1"])
def run(request, tmp_path_factory):
    """Compile all kernels once, and return what runs one of them."""
    out = tmp_path_factory.mktemp("values") / "kernels.so"
    compile_emulated(list(KERNELS.values()), out, optimized=request.param == "-O1")

    def run_one(name):
        a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
        EmulatedKernel(out, KERNELS[name]).run([a, b])
        return b

    return run_one


@pytest.mark.many_cases
@pytest.mark.parametrize("name", RACES)
def test_a_race_has_the_lines_of_the_kernel(run, name):
    np.testing.assert_array_equal(run(f"{name}-ordered"), np.arange(64)[::-1])
    file = f"{identifier(name)}.cu"
    lines = rf"race on shared memory.* at {file}:2[01] .* at {file}:2[01], with no barrier"
    with pytest.raises(DeviceError, match=lines):
        run(name)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_the_line_of_the_kernel(run, name):
    with pytest.raises(DeviceError, match=FAULTS[name][1].format(f"{identifier(name)}.cu:20")):
        run(name)
