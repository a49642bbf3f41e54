"""What is wrong on a device is reported by the emulator, with the place and the threads."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.emulator import run_emulated
from autotune.errors import CompileError, DeviceError, KernelError
from autotune.kernel import SourceKernel, arg


def kernel(body, threads=64, blocks=1, shared_bytes=0, size=64, prelude=""):
    text = f"""{prelude}
extern "C" __global__ void entry(const float* __restrict__ a, float* __restrict__ b) {{
  int t = threadIdx.x;
{body}
}}
"""
    args = [arg("a", (size,)), arg("b", (size,), role="out")]
    source = SourceKernel(
        "entry", text, args, grid=blocks, block=threads, shared_bytes=shared_bytes
    )
    return source.kernel("cuda")


def run(body, size=64, orders=(0,), **options):
    a, b = np.arange(size, dtype="float32"), np.zeros(size, "float32")
    run_emulated(kernel(body, size=size, **options), [a, b], orders)
    return b


REVERSE = "  __shared__ float s[64];\n  s[t] = a[t];\n{}\n  b[t] = s[63 - t];"


def test_a_barrier_between_write_and_read_is_enough():
    result = run(REVERSE.format("  __syncthreads();"), orders=(0, 1, 2))
    np.testing.assert_array_equal(result, np.arange(64)[::-1])


def test_a_missing_barrier_is_a_race_with_both_lines():
    with pytest.raises(
        DeviceError,
        match=r"race on shared memory.*read it at entry.cu:7 and.*wrote it at entry.cu:5",
    ):
        run(REVERSE.format(""))


def test_a_barrier_of_the_whole_grid_is_told_to_be_the_end_of_a_kernel():
    prelude = "#include <cooperative_groups.h>"
    with pytest.raises(DeviceError, match="cooperative; end the kernel there, and let another go"):
        run("  cooperative_groups::this_grid().sync();\n  b[t] = a[t];", prelude=prelude)


def test_a_missing_barrier_is_found_in_dynamic_shared_memory():
    body = REVERSE.replace("__shared__ float s[64]", "extern __shared__ float s[]")
    with pytest.raises(DeviceError, match="race on dynamic shared memory"):
        run(body.format(""), shared_bytes=256)


@pytest.mark.parametrize(
    "read",
    [
        "__half2float(s[63 - t])",
        "(float)__hadd(s[63 - t], s[63 - t])",
        "__low2float(pairs[31 - t / 2])",
        "__low2float(h2exp(pairs[31 - t / 2]))",
    ],
)
def test_what_functions_of_half_precision_are_called_with_is_read(read):
    body = """  __shared__ __half s[64];
  const __half2* pairs = reinterpret_cast<const __half2*>(s);
  s[t] = __float2half(a[t]);
{}
  b[t] = %s;"""
    run((body % read).format("  __syncthreads();"), prelude="#include <cuda_fp16.h>\n")
    with pytest.raises(DeviceError, match=r"race on shared memory.*wrote it at entry.cu:\d+"):
        run((body % read).format(""), prelude="#include <cuda_fp16.h>\n")


def test_writing_what_others_still_read_is_a_race():
    body = """  __shared__ float s[64];
  for (int i = 0; i < 2; ++i) {
    s[t] = a[t] + i;
    __syncthreads();
    b[t] = s[63 - t];
  }"""
    with pytest.raises(DeviceError, match="race on shared memory"):
        run(body)


def test_two_threads_that_write_the_same_value_are_no_race():
    body = """  __shared__ float s[1];
  s[0] = a[5];
  __syncthreads();
  b[t] = s[0];"""
    assert (run(body) == 5).all()


def test_two_threads_that_write_different_values_are_a_race():
    body = "  __shared__ float s[1];\n  s[0] = a[t];\n  __syncthreads();\n  b[t] = s[0];"
    with pytest.raises(DeviceError, match=r"wrote it at .* wrote it at"):
        run(body)


def test_lanes_of_a_warp_are_ordered_by_syncwarp_but_warps_are_not():
    body = "  __shared__ float s[64];\n  s[t] = a[t];\n  __syncwarp();\n  b[t] = s[t ^ {}];"
    np.testing.assert_array_equal(run(body.format(1)), np.arange(64) ^ 1)
    with pytest.raises(DeviceError, match="race"):
        run(body.format(32))


def test_a_shuffle_orders_no_memory():
    body = """  __shared__ float s[64];
  s[t] = a[t];
  float v = __shfl_xor_sync(0xffffffffu, a[t], 1);
  b[t] = s[t ^ 1] + v;"""
    with pytest.raises(DeviceError, match="race"):
        run(body)


def test_halves_next_to_each_other_are_no_race():
    body = """  __shared__ __half s[64];
  s[t] = __float2half(a[t]);
  __syncthreads();
  b[t] = __half2float(s[63 - t]);"""
    result = run(body, prelude="#include <cuda_fp16.h>", orders=(0, 1))
    np.testing.assert_array_equal(result, np.arange(64)[::-1])


def test_atomic_additions_to_shared_memory_are_no_race():
    body = """  __shared__ int count;
  if (t == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, t);
  __syncthreads();
  b[t] = count;"""
    assert (run(body, orders=(0, 1, 2)) == 63 * 32).all()


def test_reading_a_counter_without_a_barrier_is_a_race():
    body = """  __shared__ int count;
  if (t == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, t);
  b[t] = count;"""
    with pytest.raises(DeviceError, match="race"):
        run(body)


def test_a_barrier_does_not_wait_for_threads_that_have_exited():
    body = """  __shared__ float s[64];
  s[t] = a[t];
  if (t >= 40) return;
  __syncthreads();
  b[t] = s[39 - t] + __syncthreads_count(t & 1) + __syncthreads_and(1);
  if (__syncthreads_or(t == 50)) b[t] = 0;"""
    a, out = np.arange(64, dtype="float32"), run(body, orders=(0, 1, 2))
    assert (out[:40] == a[39::-1] + 21).all()
    assert np.isnan(out[40:]).all()


def test_threads_that_have_exited_hide_no_race():
    body = """  __shared__ float s[64];
  if (t >= 40) { s[t] = a[t]; return; }
  b[t] = s[t + 1];
  __syncthreads();"""
    with pytest.raises(DeviceError, match="race on shared memory"):
        run(body)


def test_threads_at_two_barriers_are_reported():
    body = """  if (t < 32) __syncthreads();
  else
    __syncthreads();
  b[t] = 1;"""
    with pytest.raises(
        DeviceError, match=r"waits in line 4 while thread .32,0,0. waits in line 6"
    ):
        run(body)


def test_a_shuffle_that_a_lane_never_reaches_is_reported():
    body = """  float v = 0;
  if (t & 1) v = __shfl_sync(0xffffffffu, a[t], 1);
  else __syncthreads();
  b[t] = v;"""
    with pytest.raises(DeviceError, match=r"divergent .*__shfl_sync\(0xffffffff\) in line 5"):
        run(body)


def test_a_lane_that_its_own_mask_does_not_name_is_reported():
    with pytest.raises(DeviceError, match="lane 1, which the mask 0x00000001 does not name"):
        run("  b[t] = __shfl_sync(1u, a[t], 0);")


@pytest.mark.many_cases
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("  b[t] = a[t + 1];", r"reads 4 bytes out of .*byte 256 of argument 'a'"),
        ("  b[t - 1] = a[t];", "writes 4 bytes out of bounds .*byte -4 of argument 'b'"),
        ("  const_cast<float*>(a)[t] = 0;", "writes argument 'a' at entry.cu:4, which"),
        ("  *(float4*)(b + t) = float4{0, 0, 0, 0};", "not aligned|out of bounds"),
        ("  __shared__ float s[4]; s[t] = a[t]; __syncthreads(); b[t] = s[0];",
         r"accesses item 4 of an array of type 'float \[4\]' at entry.cu:4"),
        ("  __shared__ float s[4]; float* p = s; p[t] = a[t]; __syncthreads(); b[t] = s[0];",
         "belong to no arg|past the end"),
        ("  float2 v = *(const float2*)(a + t % 8); b[t] = v.x;",
         r"thread .1,0,0. .*argument 'a' at byte 4 of type .*float2' at entry.cu:4, which is not "
         "aligned to 8 bytes"),
        ("  __shared__ float s[68]; s[t] = s[t + 4] = 0; __syncthreads();\n"
         "  b[t] = reinterpret_cast<float4*>(s + t)->y;",
         r"shared memory at byte \d+ of type .*float4' at entry.cu:5, which is not aligned to 16"),
        ("  extern __shared__ float d[]; d[t] = a[t]; b[t] = d[t];",
         "dynamic shared memory at entry.cu:4; the launch has 0 bytes .shared_bytes=.$"),
        ("  assert(t < 60);", "assertion `t < 60` failed in line 4: thread .60,0,0."),
        ("  if (t == 7) __trap();", "__trap in line 4: thread .7,0,0."),
    ],
)  # fmt: skip
def test_faults_name_the_access(body, message):
    with pytest.raises(DeviceError, match=message):
        run(body)


def test_arrays_of_narrow_types_are_loaded_as_vectors():
    body = """  __shared__ char one[3];
  __shared__ __half halves[4][4];
  one[t % 3] = 0;
  if (t < 4) *(uint2*)halves[t] = make_uint2(0, 0);
  __half local[4];
  *(float2*)local = *(const float2*)(a + t / 2 * 2);
  __syncthreads();
  b[t] = ((float*)local)[t % 2] + one[0] + (float)halves[3][3];"""
    result = run(body, prelude="#include <cuda_fp16.h>", orders=(0, 1))
    np.testing.assert_array_equal(result, np.arange(64))


def test_shared_memory_that_nobody_wrote_is_not_zero():
    body = "  __shared__ float s[64];\n  __syncthreads();\n  b[t] = s[t];"
    assert np.isnan(run(body)).all()


def test_a_race_of_one_warp_names_two_threads_though_the_writer_read_last():
    body = """  __shared__ float s[32];
  s[t] = a[t];
  __syncwarp();
  b[t] = s[0];
  s[t] = 7;"""
    message = r"thread .31,0,0. read it at entry.cu:7 and thread .0,0,0.* wrote it at entry.cu:8"
    with pytest.raises(DeviceError, match=message):
        run(body, threads=32)


def test_two_blocks_that_write_different_values_are_a_race():
    with pytest.raises(
        DeviceError, match="race on argument 'b' at byte 0: a thread of another bl"
    ):
        run("  b[t] = blockIdx.x;", blocks=2)


def test_a_block_that_initialises_what_others_count_is_a_race():
    body = "  if (t + blockIdx.x == 0) b[0] = 5;\n  __syncthreads();\n  atomicAdd(b, 1.f);"
    with pytest.raises(
        DeviceError, match="race on argument 'b' at byte 0: a thread of another bl"
    ):
        run(body, blocks=2)


def test_two_blocks_that_write_the_same_value_are_no_race():
    assert (run("  b[t] = a[t] * 2;", blocks=3, orders=(0, 1, 2)) == np.arange(64) * 2).all()


def test_reading_what_another_block_writes_is_a_race():
    body = "  if (blockIdx.x == 0) b[t] = a[t];\n  else b[t + 32] = b[t];"
    with pytest.raises(DeviceError, match="race on argument 'b'"):
        run(body, threads=32, blocks=2)


def test_a_block_orders_its_own_use_of_global_memory_by_barriers():
    body = "  b[t] = a[t];\n{}  float v = b[63 - t];\n  __syncthreads();\n  b[t] = v;"
    result = run(body.format("  __syncthreads();\n"), orders=(0, 1))
    np.testing.assert_array_equal(result, np.arange(64)[::-1])
    with pytest.raises(DeviceError, match="race on argument 'b'"):
        run(body.format(""))


def test_blocks_that_meet_by_an_atomic_counter_are_left_alone():
    body = """  __shared__ int last;
  b[blockIdx.x * 32 + t] = a[t];
  __threadfence();
  __syncthreads();
  if (t == 0) last = atomicAdd((int*)b + 63, 1);
  __syncthreads();
  if (last == 1) b[t] = b[t] + b[32 + t % 16];"""
    text = kernel(body, threads=32, blocks=2)
    text = replace(text, source=text.source.replace("b[blockIdx", "if (t < 31) b[blockIdx"))
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    args = (text.args[0], replace(text.args[1], role="inout"))
    run_emulated(replace(text, args=args), [a, b], (0,))
    assert b[5] == 10


def test_a_result_that_depends_on_the_order_of_threads_is_reported():
    body = """  unsigned old = atomicExch((unsigned*)b + 60, (unsigned)t);
  b[t % 32] = old;"""
    with pytest.raises(DeviceError, match=r"depends on the order of threads|race"):
        run(body, threads=32, orders=(0, 1))


def test_what_a_copy_writes_is_not_read_before_it_is_waited_for():
    body = """  __shared__ __align__(16) float s[64];
  __pipeline_memcpy_async(s + t, a + t, 4);
  __pipeline_commit();
{}
  __syncthreads();
  b[t] = s[63 - t];"""
    prelude = "#include <cuda_pipeline.h>"
    waited = run(body.format("  __pipeline_wait_prior(0);"), prelude=prelude, orders=(0, 1))
    np.testing.assert_array_equal(waited, np.arange(64)[::-1])
    message = "reads .* at entry.cu:9, while the asynchronous copy at entry.cu:5 that writes it"
    for order in (0, 1):
        with pytest.raises(DeviceError, match=message):
            run(body.format("  __pipeline_wait_prior(1);"), prelude=prelude, orders=(order,))


def test_a_copy_into_what_others_still_read_is_a_race():
    body = """  __shared__ float s[64];
  s[t] = a[t];
  __syncthreads();
  b[t] = s[63 - t];
  __pipeline_memcpy_async(s + t, a + 63 - t, 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);"""
    for order in (0, 1):
        with pytest.raises(DeviceError, match="race"):
            run(body, orders=(order,))


def test_what_the_compiler_says_keeps_the_line_of_the_kernel():
    with pytest.raises(CompileError, match=r"entry.cu:4:.*undefined_name"):
        run("  b[t] = undefined_name;")


def test_inline_ptx_that_is_not_known_is_an_error_with_its_line_and_advice():
    message = (
        r"does not know `brev.b32` in inline PTX at entry.cu:4 .*; write another way under #ifdef"
    )
    with pytest.raises(DeviceError, match=message):
        run('  asm volatile("brev.b32 %0, %1;" : "=r"(*(int*)(b + t)) : "r"(t));')


def test_only_cuda_is_emulated():
    text = SourceKernel("f", "void f(float* b) {}", [arg("b", (1,), role="out")]).kernel("c")
    with pytest.raises(KernelError, match="only CUDA text is emulated"):
        run_emulated(text, [np.zeros(1, "float32")])


def test_what_the_host_compiler_would_load_ahead_is_no_access_of_the_kernel():
    body = """  __shared__ float s[4];
  if (t == 0) s[0] = 0;
  for (int k = 0; k < 64; ++k) {
    if (t == 0) s[0] += a[k];
  }
  __syncthreads();
  b[t] = s[0];"""
    assert (run(body, orders=(0, 1, 2)) == 63 * 32).all()
