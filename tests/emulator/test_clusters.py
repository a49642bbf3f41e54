"""Blocks of a cluster use each other's shared memory, and what goes wrong there is an error."""

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from autotune.emulator import EmulatedKernel, compile_emulated, run_emulated
from autotune.errors import DeviceError, KernelError
from autotune.kernel import KernelCall, Launch, SourceKernel, arg

BLOCKS, THREADS = 4, 64
# Each block adds up what all blocks of its cluster have.
SUMS = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __launch_bounds__(64) DIMS
entry(const float* __restrict__ a, float* __restrict__ b) {
  MEMORY
  cg::cluster_group cluster = cg::this_cluster();
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  s[t] = a[i];
  BEFORE;
  float sum = 0.0f;
  for (int rank = 0; rank < cluster.num_blocks(); ++rank)
    sum += cluster.map_shared_rank(s, rank)[t];
  b[i] = sum + 1000 * cluster.block_rank();
  AFTER;
}
"""
RIGHT = {
    "DIMS": "__cluster_dims__(4, 1, 1)",
    "MEMORY": "__shared__ float s[64];",
    "BEFORE": "cluster.sync()",
    "AFTER": "cluster.sync()",
}


def source(grid=8, shared_bytes=0, text=SUMS, **changes):
    defines = {**RIGHT, **changes}
    memory = defines.pop("MEMORY")
    head = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    count = grid * THREADS
    text = head + text.replace("MEMORY", memory)
    args = [arg("a", (count,)), arg("b", (count,), role="out")]
    return SourceKernel("entry", text, args, grid=grid, block=THREADS, shared_bytes=shared_bytes)


def run(order=0, grid=8, shared_bytes=0, text=SUMS, **changes):
    kernel = source(grid, shared_bytes, text, **changes).kernel("cuda")
    count = grid * THREADS
    a, b = np.arange(count, dtype="float32"), np.zeros(count, "float32")
    run_emulated(kernel, [a, b], (order,))
    return b


def expected(grid=8):
    parts = np.arange(grid * THREADS, dtype="float32").reshape(-1, BLOCKS, THREADS)
    sums = parts.sum(1, keepdims=True) + 1000 * np.arange(BLOCKS, dtype="float32")[:, None]
    return sums.reshape(-1)


@pytest.mark.parametrize("order", [0, 1, 5])
@pytest.mark.parametrize(
    ("memory", "shared_bytes"),
    [("__shared__ float s[64];", 0), ("extern __shared__ float s[];", 256)],
    ids=["static", "dynamic"],
)
def test_each_block_reads_the_shared_memory_of_all(order, memory, shared_bytes):
    np.testing.assert_array_equal(run(order, 8, shared_bytes, MEMORY=memory), expected())


def test_a_kernel_without_clusters_is_a_cluster_of_one():
    np.testing.assert_array_equal(run(DIMS=""), np.arange(8 * THREADS))


def test_the_shape_of_clusters_may_come_from_a_macro_with_expressions():
    shape = "__cluster_dims__(TWO * 2, 1, 1)\n#define TWO 2"
    np.testing.assert_array_equal(run(DIMS=shape), expected())


def test_the_shape_of_clusters_may_stand_before_the_kernel():
    text = SUMS.replace('extern "C"', '/* { */ extern "C" __cluster_dims__((4), 1, 1)')
    np.testing.assert_array_equal(run(text=text, DIMS=""), expected())


def test_a_kernel_whose_clusters_a_macro_hides_is_an_error():
    text = "#define KERNEL(name) __global__ void DIMS name\n" + SUMS.replace(
        "__global__ void __launch_bounds__(64) DIMS\nentry", "KERNEL(entry)"
    )
    with pytest.raises(KernelError, match=r"finds no `__global__.* and so not whether"):
        run(text=text)


def test_host_threads_launch_clusters_of_one_library_at_once(tmp_path):
    kernel = source().kernel("cuda")
    emulated = EmulatedKernel(compile_emulated(kernel, tmp_path / "k.so"), kernel)
    results = [np.zeros(8 * THREADS, "float32") for _ in range(60)]
    a = np.arange(8 * THREADS, dtype="float32")
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda b: emulated.run([a, b]), results))
    for b in results:
        np.testing.assert_array_equal(b, expected())


@pytest.mark.parametrize("order", [0, 1, 5])
def test_shared_memory_of_a_block_that_has_ended_is_not_to_be_read(order):
    with pytest.raises(DeviceError, match=r"shared memory of block \(\d,0,0\) .*has exited"):
        run(order, AFTER="")


@pytest.mark.parametrize("order", [0, 1])
def test_a_block_may_only_be_used_once_it_is_known_to_have_started(order):
    with pytest.raises(DeviceError, match="may not have started: a barrier of the cluster is"):
        run(order, BEFORE="__syncthreads()")


@pytest.mark.parametrize("order", [0, 1, 5])
def test_a_write_that_no_barrier_orders_with_reads_of_other_blocks_is_a_race(order):
    after = "__syncthreads(); s[t] = -1; cluster.sync()"
    with pytest.raises(DeviceError, match=r"race on .*shared memory"):
        run(order, AFTER=after)
    np.testing.assert_array_equal(run(order, AFTER=f"cluster.sync(); {after}"), expected())


def test_a_read_that_no_barrier_orders_after_a_write_of_another_block_is_a_race():
    with pytest.raises(DeviceError, match=r"race on .* of block \(\d,0,0\)"):
        run(BEFORE="cluster.sync(); s[t] = a[i]; __syncthreads()")


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("cluster.barrier_arrive(); cluster.barrier_arrive()", "arrives twice at the barrier"),
        ("cluster.barrier_wait()", "waits at the barrier of its cluster .* without an arrival"),
        ("if (t < 16) cluster.sync(); else __syncthreads()", "(?s)divergent"),
        ("cluster.map_shared_rank(s, 4)[t] = 1", "rank 4 of a cluster of 4 blocks"),
    ],
    ids=["twice", "no-arrival", "part-of-a-warp", "no-such-rank"],
)
def test_a_barrier_or_rank_that_a_cluster_does_not_have_is_an_error(before, message):
    with pytest.raises(DeviceError, match=message):
        run(BEFORE=before)


ARRIVE = 'asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");'
WAIT = 'asm volatile("barrier.cluster.wait.aligned;" ::: "memory");'


@pytest.mark.many_cases
@pytest.mark.parametrize("order", [0, 1, 5])
@pytest.mark.parametrize(
    ("before", "message"),
    [
        (f"if (t % 32 < 16) {ARRIVE}\n {WAIT}", r"(?s)(?=.*arrive.* line 13\b).*wait.* line 14\b"),
        (f"if (t % 32 < 16) {ARRIVE}\n else {ARRIVE}\n {WAIT}", r"(?s)(?=.*line 13\b).*line 14\b"),
        (f"if (t >= 32) {ARRIVE}\n {WAIT}", "of its cluster in entry.cu:14 without an arrival"),
    ],
    ids=["half-a-warp", "of-each-half-another", "one-warp"],
)
def test_an_aligned_arrival_that_a_condition_guards_is_an_error(before, message, order):
    with pytest.raises(DeviceError, match=message):
        run(order, text=SUMS.replace("BEFORE;", before))


def test_all_warps_arrive_by_the_same_or_by_other_instructions():
    before = f"if (t < 32) {ARRIVE}\n else {ARRIVE}\n {WAIT}"
    text = SUMS.replace("BEFORE;", before)
    np.testing.assert_array_equal(run(text=text), expected())


def test_a_block_that_does_not_arrive_is_named_with_what_it_waits_for():
    before = "if (blockIdx.x == 2 && t == 0) __syncthreads(); else cluster.sync()"
    with pytest.raises(DeviceError) as error:
        run(BEFORE=before, AFTER="")
    text = str(error.value)
    assert re.search(
        r"block \(0,0,0\): warps 0 to 1 wait for the other blocks of its cluster", text
    )
    assert "block (2,0,0): thread 0 waits at __syncthreads" in text


def test_threads_that_have_exited_count_as_arrived():
    wanted = expected().reshape(-1, THREADS)
    wanted[:, 32:] = 0
    before = "cluster.sync(); if (t >= 32) { b[i] = 0; return; }"
    np.testing.assert_array_equal(run(BEFORE=before), wanted.reshape(-1))


@pytest.mark.parametrize("dims", ["(3, 1, 1)", "(16, 1, 1)"])
def test_clusters_that_do_not_divide_the_grid_or_are_too_large_are_an_error(dims):
    with pytest.raises(DeviceError, match="expected clusters of 1 to 8 blocks that divide the"):
        run(DIMS=f"__cluster_dims__{dims}")


def test_ranks_are_counted_along_x_first():
    text = """
    #include <cooperative_groups.h>
    extern "C" __global__ void __cluster_dims__(2, 2, 2) entry(const float* a, float* b) {
      const auto cluster = cooperative_groups::this_cluster();
      const dim3 at = cluster.block_index();
      b[(blockIdx.z * 2 + blockIdx.y) * 4 + blockIdx.x] =
          at.x + 10 * at.y + 100 * at.z + 1000 * cluster.block_rank();
    }
    """
    call = KernelCall("entry", ("a", "b"), Launch((4, 2, 2), (1, 1, 1)))
    ranks = SourceKernel(
        "entry", text, [arg("a", (1,)), arg("b", (16,), role="out")], calls=[call]
    )
    b = np.zeros(16, "float32")
    run_emulated(ranks.kernel("cuda"), [np.zeros(1, "float32"), b], (3,))
    x, y, z = np.arange(16) % 2, np.arange(16) // 4 % 2, np.arange(16) // 8
    np.testing.assert_array_equal(b, x + 10 * y + 100 * z + 1000 * (x + 2 * y + 4 * z))
