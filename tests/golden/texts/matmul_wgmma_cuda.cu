// matmul_wgmma_cuda_kernel0(A, B, D) grid (4, 1, 1) block (4, 8, 4) shared 65536
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
static __device__ __forceinline__ void wgmma_m64n64k16_f16(
    float& first, const __half& left, int left_begin, const __half& right, int right_begin,
    int left_panel, int right_panel) {
  float* const sum = &first;
#ifdef AUTOTUNE_EMULATE
  for (int i = 0; i < 32; ++i) {
    const int row = threadIdx.z % 4 * 16 + i / 2 % 2 * 8 + threadIdx.y;
    const int column = i / 4 * 8 + threadIdx.x * 2 + i % 2;
    for (int k = 0; k < 16; ++k)
      sum[i] += wgmma_item<LEFT_TURNED>(&left, left_begin, left_panel, row, k) *
                wgmma_item<RIGHT_TURNED>(&right, right_begin, right_panel, column, k);
  }
#else
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, 1, 1, 1, %34, %35;"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
        "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
        "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
        "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
        "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
        "+f"(sum[30]), "+f"(sum[31])
      : "l"(wgmma_operand(&left + left_begin, left_panel)),
        "l"(wgmma_operand(&right + right_begin, right_panel)),
        "n"(LEFT_TURNED), "n"(RIGHT_TURNED));
#endif
}

extern "C" __global__ void __launch_bounds__(128)
matmul_wgmma_cuda_kernel0(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    __half* __restrict__ D) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  __half* const A_shared = (__half*)(dynamic_shared);
  __half* const B_shared = (__half*)(dynamic_shared + 32768);
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int tz = threadIdx.z;
  float C[32];
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
    C[j_init + 16] = 0.0f;
    C[j_init + 18] = 0.0f;
    C[j_init + 20] = 0.0f;
    C[j_init + 22] = 0.0f;
    C[j_init + 24] = 0.0f;
    C[j_init + 26] = 0.0f;
    C[j_init + 28] = 0.0f;
    C[j_init + 30] = 0.0f;
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, A + (bx >> 1) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8, 16);
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, B + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + (bx & 1) * 64 + (ty & 1) * 32 + tx * 8, 16);
  }
  __pipeline_commit();
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 4096, A + (bx >> 1) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8 + 64, 16);
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 4096, B + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + (bx & 1) * 64 + (ty & 1) * 32 + tx * 8 + 8192, 16);
  }
  __pipeline_commit();
  for (int k_outer_outer = 0; k_outer_outer < 4; ++k_outer_outer) {
    __pipeline_wait_prior(1);
    wgmma_show();
    __syncthreads();
    wgmma_fence();
    wgmma_m64n64k16_f16<0, 1>(C[0], A_shared[k_outer_outer * 4096], 0, B_shared[k_outer_outer * 4096], 0, 8192, 8192);
    wgmma_m64n64k16_f16<0, 1>(C[0], A_shared[k_outer_outer * 4096], 16, B_shared[k_outer_outer * 4096], 1024, 8192, 8192);
    wgmma_m64n64k16_f16<0, 1>(C[0], A_shared[k_outer_outer * 4096], 32, B_shared[k_outer_outer * 4096], 2048, 8192, 8192);
    wgmma_m64n64k16_f16<0, 1>(C[0], A_shared[k_outer_outer * 4096], 48, B_shared[k_outer_outer * 4096], 3072, 8192, 8192);
    wgmma_commit();
    if (k_outer_outer < 2) {
      for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
        __pipeline_memcpy_async(A_shared + ((k_outer_outer + 2) & 3) * 4096 + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, A + (bx >> 1) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + k_outer_outer * 64 + (ty & 1) * 32 + tx * 8 + 128, 16);
      }
      for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
        __pipeline_memcpy_async(B_shared + ((k_outer_outer + 2) & 3) * 4096 + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, B + k_outer_outer * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + (bx & 1) * 64 + (ty & 1) * 32 + tx * 8 + 16384, 16);
      }
    }
    __pipeline_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
  wgmma_sums<32>(C[0]);
  __align__(4) __half lanes[2] = {__float2half(C[0]), __float2half(C[1])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2) = *(const unsigned int*)lanes;
  __align__(4) __half lanes_1[2] = {__float2half(C[2]), __float2half(C[3])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1024) = *(const unsigned int*)lanes_1;
  __align__(4) __half lanes_2[2] = {__float2half(C[4]), __float2half(C[5])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 8) = *(const unsigned int*)lanes_2;
  __align__(4) __half lanes_3[2] = {__float2half(C[6]), __float2half(C[7])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1032) = *(const unsigned int*)lanes_3;
  __align__(4) __half lanes_4[2] = {__float2half(C[8]), __float2half(C[9])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 16) = *(const unsigned int*)lanes_4;
  __align__(4) __half lanes_5[2] = {__float2half(C[10]), __float2half(C[11])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1040) = *(const unsigned int*)lanes_5;
  __align__(4) __half lanes_6[2] = {__float2half(C[12]), __float2half(C[13])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 24) = *(const unsigned int*)lanes_6;
  __align__(4) __half lanes_7[2] = {__float2half(C[14]), __float2half(C[15])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1048) = *(const unsigned int*)lanes_7;
  __align__(4) __half lanes_8[2] = {__float2half(C[16]), __float2half(C[17])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 32) = *(const unsigned int*)lanes_8;
  __align__(4) __half lanes_9[2] = {__float2half(C[18]), __float2half(C[19])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1056) = *(const unsigned int*)lanes_9;
  __align__(4) __half lanes_10[2] = {__float2half(C[20]), __float2half(C[21])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 40) = *(const unsigned int*)lanes_10;
  __align__(4) __half lanes_11[2] = {__float2half(C[22]), __float2half(C[23])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1064) = *(const unsigned int*)lanes_11;
  __align__(4) __half lanes_12[2] = {__float2half(C[24]), __float2half(C[25])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 48) = *(const unsigned int*)lanes_12;
  __align__(4) __half lanes_13[2] = {__float2half(C[26]), __float2half(C[27])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1072) = *(const unsigned int*)lanes_13;
  __align__(4) __half lanes_14[2] = {__float2half(C[28]), __float2half(C[29])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 56) = *(const unsigned int*)lanes_14;
  __align__(4) __half lanes_15[2] = {__float2half(C[30]), __float2half(C[31])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1080) = *(const unsigned int*)lanes_15;
}
