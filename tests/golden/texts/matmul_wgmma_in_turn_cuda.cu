// matmul_wgmma_in_turn_cuda_kernel0(A, B, D) grid (3, 1, 1) block (4, 8, 4) shared 0
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#ifdef AUTOTUNE_EMULATE
static inline void wgmma_fence() {}
static inline void wgmma_commit() {}
template <int PENDING> static inline void wgmma_wait() {}
template <int COUNT> static inline void wgmma_sums(float&) {}
static inline void wgmma_show() {}
template <class T> static inline float wgmma_value(T item) { return (float)item; }
static inline float wgmma_value(float item) {
  return __uint_as_float(__float_as_uint(item) & ~0x1fffu);
}
// Returns an item of an operand: of the row or column `across`, the one `k` along the reduction.
template <int TURNED, class T>
static inline float wgmma_item(const T* tile, int begin, int panel, int across, int k) {
  constexpr int LENGTH = 128 / sizeof(T), VECTOR = 16 / sizeof(T), ITEM = sizeof(T);
  const int row = TURNED ? k : across, column = TURNED ? across : k;
  const int plain = begin + column / LENGTH * (panel / ITEM) + row * LENGTH + column % LENGTH;
  return wgmma_value(tile[plain ^ (plain / LENGTH & 7) * VECTOR]);
}
#else
// Describes an operand that begins at an item of a tile: eight rows are 1024 bytes before the next
// eight, a panel is so many before the next, and vectors are exchanged.
static __device__ __forceinline__ unsigned long long wgmma_operand(const void* at, int panel) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(at) & 0x3ffff;
  return 1ull << 62 | 1024ull >> 4 << 32 | (unsigned long long)(panel >> 4) << 16 | place >> 4;
}

// Orders what threads did to their sums before the instructions that follow.
static __device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most so many groups of instructions are still at work.
template <int PENDING>
static __device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Keeps the compiler from reading sums before a wait, which it does not know to concern them.
template <int COUNT>
static __device__ __forceinline__ void wgmma_sums(float& first) {
  float* const sum = &first;
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(sum[i])::"memory");
}

// Makes stores to shared memory visible to instructions, which read it by another way.
static __device__ __forceinline__ void wgmma_show() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif

template <int LEFT_TURNED, int RIGHT_TURNED>
static __device__ __forceinline__ void wgmma_m64n32k16_f16(
    float& first, const __half& left, int left_begin, const __half& right, int right_begin,
    int left_panel, int right_panel) {
  float* const sum = &first;
#ifdef AUTOTUNE_EMULATE
  for (int i = 0; i < 16; ++i) {
    const int row = threadIdx.z % 4 * 16 + i / 2 % 2 * 8 + threadIdx.y;
    const int column = i / 4 * 8 + threadIdx.x * 2 + i % 2;
    for (int k = 0; k < 16; ++k)
      sum[i] += wgmma_item<LEFT_TURNED>(&left, left_begin, left_panel, row, k) *
                wgmma_item<RIGHT_TURNED>(&right, right_begin, right_panel, column, k);
  }
#else
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
      "}, %16, %17, 1, 1, 1, %18, %19;"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
        "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
        "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15])
      : "l"(wgmma_operand(&left + left_begin, left_panel)),
        "l"(wgmma_operand(&right + right_begin, right_panel)),
        "n"(LEFT_TURNED), "n"(RIGHT_TURNED));
#endif
}

extern "C" __global__ void __launch_bounds__(128)
matmul_wgmma_in_turn_cuda_kernel0(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    float* __restrict__ D) {
  __shared__ __align__(1024) __half A_shared[16384];
  __shared__ __align__(1024) __half B_shared[8192];
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int tz = threadIdx.z;
  float C[16];
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, A + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8, 16);
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 2; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, B + bx * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8, 16);
  }
  __pipeline_commit();
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 4096, A + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8 + 64, 16);
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 2; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 2048, B + bx * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8 + 64, 16);
  }
  __pipeline_commit();
  for (int i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer = 0; i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer < 3; ++i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer) {
    if ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2 < 2) {
      #pragma unroll
      for (int j_init = 0; j_init < 2; ++j_init) {
        C[j_init] = 0.0f;
        C[j_init + 2] = 0.0f;
        C[j_init + 4] = 0.0f;
        C[j_init + 6] = 0.0f;
        C[j_init + 8] = 0.0f;
        C[j_init + 10] = 0.0f;
        C[j_init + 12] = 0.0f;
        C[j_init + 14] = 0.0f;
      }
    }
    for (int k_outer_outer = 0; k_outer_outer < 4; ++k_outer_outer) {
      __pipeline_wait_prior(1);
      wgmma_show();
      __syncthreads();
      if ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2 < 2) {
        wgmma_fence();
        wgmma_m64n32k16_f16<0, 0>(C[0], A_shared[k_outer_outer * 4096], 0, B_shared[k_outer_outer * 2048], 0, 8192, 4096);
        wgmma_m64n32k16_f16<0, 0>(C[0], A_shared[k_outer_outer * 4096], 16, B_shared[k_outer_outer * 2048], 16, 8192, 4096);
        wgmma_m64n32k16_f16<0, 0>(C[0], A_shared[k_outer_outer * 4096], 32, B_shared[k_outer_outer * 2048], 32, 8192, 4096);
        wgmma_m64n32k16_f16<0, 0>(C[0], A_shared[k_outer_outer * 4096], 48, B_shared[k_outer_outer * 2048], 48, 8192, 4096);
        wgmma_commit();
      }
      if (k_outer_outer < 2) {
        if ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2 < 2) {
          for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
            __pipeline_memcpy_async(A_shared + ((k_outer_outer + 2) & 3) * 4096 + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, A + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + k_outer_outer * 64 + (ty & 1) * 32 + tx * 8 + 128, 16);
          }
        }
        for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 2; ++ax0_ax1_fused_outer_outer_outer_outer) {
          __pipeline_memcpy_async(B_shared + ((k_outer_outer + 2) & 3) * 2048 + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, B + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + k_outer_outer * 64 + (ty & 1) * 32 + tx * 8 + 128, 16);
        }
      }
      __pipeline_commit();
      wgmma_wait<1>();
    }
    wgmma_wait<0>();
    wgmma_sums<16>(C[0]);
    wgmma_show();
    __syncthreads();
    if (i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer < 2) {
      if ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) >> 2 < 2) {
        for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
          __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, A + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) >> 2) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8, 16);
        }
      }
      for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 2; ++ax0_ax1_fused_outer_outer_outer_outer) {
        __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, B + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) & 3) * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8, 16);
      }
      __pipeline_commit();
      if ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) >> 2 < 2) {
        for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
          __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 4096, A + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) >> 2) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8 + 64, 16);
        }
      }
      for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 2; ++ax0_ax1_fused_outer_outer_outer_outer) {
        __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 2048, B + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) & 3) * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8 + 64, 16);
      }
      __pipeline_commit();
    }
    if (i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx < 8) {
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2) = make_float2(C[0], C[1]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 1024) = make_float2(C[2], C[3]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 8) = make_float2(C[4], C[5]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 1032) = make_float2(C[6], C[7]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 16) = make_float2(C[8], C[9]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 1040) = make_float2(C[10], C[11]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 24) = make_float2(C[12], C[13]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 1048) = make_float2(C[14], C[15]);
    }
  }
}
