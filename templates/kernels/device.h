// Helpers shared by the CUDA kernels: vectorised loads and stores, cp.async, and sums over a thread block cluster.
// Before sm_80 copies are synchronous; in the emulator they are the functions of cuda_pipeline_primitives.h.
#ifdef AUTOTUNE_EMULATE
#include <cuda_pipeline_primitives.h>
#define HAVE_ASYNC_COPY 0
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define HAVE_ASYNC_COPY 1
#else
#define HAVE_ASYNC_COPY 0
#endif

template <int FLOATS>
__device__ __forceinline__ void load_vector(float* dst, const float* src) {
  if (FLOATS == 4) {
    const float4 v = *reinterpret_cast<const float4*>(src);
    dst[0] = v.x;
    dst[FLOATS > 1 ? 1 : 0] = v.y;
    dst[FLOATS > 2 ? 2 : 0] = v.z;
    dst[FLOATS > 3 ? 3 : 0] = v.w;
  } else if (FLOATS == 2) {
    const float2 v = *reinterpret_cast<const float2*>(src);
    dst[0] = v.x;
    dst[FLOATS > 1 ? 1 : 0] = v.y;
  } else {
    dst[0] = src[0];
  }
}

template <int FLOATS>
__device__ __forceinline__ void store_vector(float* dst, const float* src) {
  if (FLOATS == 4) {
    *reinterpret_cast<float4*>(dst) =
        make_float4(src[0], src[FLOATS > 1 ? 1 : 0], src[FLOATS > 2 ? 2 : 0], src[FLOATS > 3 ? 3 : 0]);
  } else if (FLOATS == 2) {
    *reinterpret_cast<float2*>(dst) = make_float2(src[0], src[FLOATS > 1 ? 1 : 0]);
  } else {
    dst[0] = src[0];
  }
}

// Copies FLOATS consecutive floats to shared memory, or fills them with zeros when not valid; then nothing is read, and
// src may point anywhere.
template <int FLOATS>
__device__ __forceinline__ void copy_async(float* dst, const float* src, bool valid) {
#if HAVE_ASYNC_COPY
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(dst));
  const int bytes = valid ? FLOATS * 4 : 0;
  if (FLOATS == 4) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(src), "r"(bytes));
  } else if (FLOATS == 2) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(src), "r"(bytes));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(src), "r"(bytes));
  }
#elif defined(AUTOTUNE_EMULATE)
  __pipeline_memcpy_async(dst, src, FLOATS * 4, valid ? 0 : FLOATS * 4);
#else
  float v[FLOATS];
#pragma unroll
  for (int i = 0; i < FLOATS; ++i) v[i] = 0.0f;
  if (valid) load_vector<FLOATS>(v, src);
  store_vector<FLOATS>(dst, v);
#endif
}

__device__ __forceinline__ void copy_commit() {
#if HAVE_ASYNC_COPY
  asm volatile("cp.async.commit_group;");
#elif defined(AUTOTUNE_EMULATE)
  __pipeline_commit();
#endif
}

// Calls body(row, vector) for every vector of a tile of TILE_ROWS rows, neighbouring vectors in neighbouring threads.
// Where THREADS is a multiple of TILE_VECTORS a thread keeps one column, so that its addresses differ by constants
// only.
template <int TILE_ROWS, int TILE_VECTORS, class Body>
__device__ __forceinline__ void each_vector(int tid, Body body) {
  if (TILE_VECTORS <= THREADS && THREADS % (TILE_VECTORS <= THREADS ? TILE_VECTORS : 1) == 0) {
    constexpr int SWEEP = TILE_VECTORS <= THREADS ? THREADS / TILE_VECTORS : 1;
    const int first = tid / TILE_VECTORS, vector = tid % TILE_VECTORS;
#pragma unroll
    for (int row = 0; row < TILE_ROWS; row += SWEEP)
      if (TILE_ROWS % SWEEP == 0 || row + first < TILE_ROWS) body(row + first, vector);
  } else {
#pragma unroll 8
    for (int begin = 0; begin < TILE_ROWS * TILE_VECTORS; begin += THREADS) {
      const int i = begin + tid;
      if (TILE_ROWS * TILE_VECTORS % THREADS == 0 || i < TILE_ROWS * TILE_VECTORS) body(i / TILE_VECTORS, i % TILE_VECTORS);
    }
  }
}

// Waits until at most PENDING copy groups of this thread are in flight.
template <int PENDING>
__device__ __forceinline__ void copy_wait() {
#if HAVE_ASYNC_COPY
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING));
#elif defined(AUTOTUNE_EMULATE)
  __pipeline_wait_prior(PENDING);
#endif
}

// Sums the same FLOATS neighbours of PARTS arrays with a stride of `size` floats.
template <int PARTS, int FLOATS, class Size>
__device__ __forceinline__ void add_parts(float (&total)[FLOATS], const float* parts, Size size) {
  float part[FLOATS];
#pragma unroll
  for (int v = 0; v < FLOATS; ++v) total[v] = 0.0f;
#pragma unroll
  for (int p = 0; p < PARTS; ++p) {
    load_vector<FLOATS>(part, parts + p * size);
#pragma unroll
    for (int v = 0; v < FLOATS; ++v) total[v] += part[v];
  }
}

#if defined(CLUSTER) && CLUSTER
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Loads the float at the same offset of the shared memory of the block of a rank.
__device__ __forceinline__ float cluster_read(const float* own, int rank) {
  const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(own));
  float value;
  asm volatile(
      "{ .reg .u32 remote;\n"
      "mapa.shared::cluster.u32 remote, %1, %2;\n"
      "ld.shared::cluster.f32 %0, [remote]; }"
      : "=f"(value)
      : "r"(from), "r"(rank)
      : "memory");
  return value;
}

// Sums the floats at the same shared-memory offset of the first BLOCKS blocks.
template <int BLOCKS>
__device__ __forceinline__ float cluster_sum(const float* own) {
  float total = 0.0f;
#pragma unroll
  for (int rank = 0; rank < BLOCKS; ++rank) total += cluster_read(own, rank);
  return total;
}
#define CLUSTER_SHAPE __cluster_dims__(1, 1, SPLIT)
#else
#define CLUSTER_SHAPE
#endif
