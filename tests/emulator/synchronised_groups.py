"""More of `synchronised.py`: groups of threads, of blocks, and flags."""

import numpy as np

from tests.emulator.synchronised import Synchronised


def _reversed(a):
    return a[:128].reshape(2, 64)[:, ::-1].ravel()


KERNELS = {
    "stencil": Synchronised(
        """__shared__ float s[66];
  s[t + 1] = a[i + 1];  // @load
  if (t < 2) s[65 * t] = a[i - t + 65 * t];  // @load
  __syncthreads();  //- load use
  b[i] = s[t] + s[t + 1] + s[t + 2];  // @use""",
        lambda a: a[:128] + a[1:129] + a[2:130],
    ),
    "groups": Synchronised(
        """__shared__ float s[64];
  const auto block = cooperative_groups::this_thread_block();
  const auto tile = cooperative_groups::tiled_partition<16>(block);
  s[t] = a[i];  // @load
  tile.sync();  //- load swap
  const float other = s[t ^ 15];  // @swap
  block.sync();  //- swap store
  s[t] = other;  // @store
  block.sync();  //- store end
  b[i] = s[t ^ 63 ^ 15];  // @end""",
        _reversed,
    ),
    "barrier-object": Synchronised(
        """__shared__ float s[64];
  __shared__ cuda::barrier<cuda::thread_scope_block> ready;
  if (t == 0) init(&ready, 64);  // @begin
  __syncthreads();  //- begin wait load
  s[t] = a[i];  // @load
  ready.arrive_and_wait();  //- load use  // @wait
  b[i] = s[63 - t];  // @use""",
        _reversed,
    ),
    "named-barrier": Synchronised(
        """__shared__ float s[32];
  if (t < 32) {
    s[t] = a[i];  // @write
    asm volatile("bar.arrive 1, 64;" ::: "memory");  //- wait
  } else {
    asm volatile("bar.sync 1, 64;" ::: "memory");  //- write read  // @wait
    b[i - 32] = s[t ^ 63];  // @read
  }""",
        lambda a: np.stack([a[:128].reshape(2, 64)[:, 31::-1], np.zeros((2, 32))], 1).ravel(),
    ),
    "lock": Synchronised(
        """__shared__ int sum, lock;
  if (t == 0) sum = lock = 0;  // @zero
  __syncthreads();  //- zero lock sum
  while (atomicCAS(&lock, 0, 1)) {}  // @lock
  __threadfence_block();  //- sum
  sum += 1;  // @sum
  __threadfence_block();  //- sum
  atomicExch(&lock, 0);  // @lock
  __syncthreads();  //- sum end
  b[i] = sum;  // @end""",
        lambda a: np.full(128, 64),
    ),
    "flag": Synchronised(
        """__shared__ float s;
  __shared__ volatile int flag;
  if (t == 0) flag = 0;  // @zero
  __syncthreads();  //- zero flag write read
  if (t == 40) {
    s = a[i];  // @write
    __threadfence_block();  //- write read flag
    flag = 1;  // @flag
  } else {
    while (!flag) {}  // @flag
    __threadfence_block();
    b[i] = s;  // @read
  }""",
        lambda a: np.where(np.arange(128) % 64 == 40, 0, np.repeat(a[[40, 104]], 64)),
    ),
    "last-block": Synchronised(
        """__shared__ bool last;
  __device__ static unsigned arrived;
  b[128 + i] = a[i];  // @part
  __threadfence();  //- part sum
  __syncthreads();  //- part sum
  if (t == 0) last = atomicAdd(&arrived, 1) % 2;  // @last
  __syncthreads();  //- last test
  if (last)  // @test
    b[t] = b[128 + t] + b[192 + t];  // @sum""",
        lambda a: a[:64] + a[64:128],
    ),
    "cluster": Synchronised(
        """__shared__ float s[64];
  const auto cluster = cooperative_groups::this_cluster();
  s[t] = a[i];  // @load
  cluster.sync();  //- load read
  b[i] = *cluster.map_shared_rank(&s[63 - t], cluster.block_rank() ^ 1);  // @read
  cluster.sync();  //- load read""",
        lambda a: a[127::-1],
        attributes="__cluster_dims__(2) ",
    ),
}
