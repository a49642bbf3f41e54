// matmul_wgmma_wide_stores_cuda_kernel0(A, B, D) grid (2, 1, 1) block (4, 8, 4) shared 0
#include <cuda_fp16.h>

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
static __device__ __forceinline__ void wgmma_m64n128k16_f16(
    float& first, const __half& left, int left_begin, const __half& right, int right_begin,
    int left_panel, int right_panel) {
  float* const sum = &first;
#ifdef AUTOTUNE_EMULATE
  for (int i = 0; i < 64; ++i) {
    const int row = threadIdx.z % 4 * 16 + i / 2 % 2 * 8 + threadIdx.y;
    const int column = i / 4 * 8 + threadIdx.x * 2 + i % 2;
    for (int k = 0; k < 16; ++k)
      sum[i] += wgmma_item<LEFT_TURNED>(&left, left_begin, left_panel, row, k) *
                wgmma_item<RIGHT_TURNED>(&right, right_begin, right_panel, column, k);
  }
#else
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, 1, 1, 1, %66, %67;"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
        "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
        "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
        "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
        "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
        "+f"(sum[30]), "+f"(sum[31]), "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]),
        "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]), "+f"(sum[40]), "+f"(sum[41]),
        "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]),
        "+f"(sum[48]), "+f"(sum[49]), "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]),
        "+f"(sum[54]), "+f"(sum[55]), "+f"(sum[56]), "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]),
        "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]), "+f"(sum[63])
      : "l"(wgmma_operand(&left + left_begin, left_panel)),
        "l"(wgmma_operand(&right + right_begin, right_panel)),
        "n"(LEFT_TURNED), "n"(RIGHT_TURNED));
#endif
}

static __device__ __forceinline__ void exchange_pairs_f16(__half& first, int x) {
  __half* const item = &first;
  unsigned pair[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    pair[i] = (unsigned)__half_as_ushort(item[2 * i]) | (unsigned)__half_as_ushort(item[2 * i + 1]) << 16;
#pragma unroll
  for (int step = 1; step < 4; step *= 2) {
    const bool upper = x & step;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const unsigned got = __shfl_xor_sync(0xffffffffu, upper ? pair[i] : pair[i + step], step);
      if (upper) pair[i] = got;
      else pair[i + step] = got;
    }
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) item[i] = __ushort_as_half((unsigned short)(pair[i / 2] >> i % 2 * 16));
}

extern "C" __global__ void __launch_bounds__(128)
matmul_wgmma_wide_stores_cuda_kernel0(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    __half* __restrict__ D) {
  __shared__ __align__(1024) __half A_shared[4096];
  __shared__ __align__(1024) __half B_shared[8192];
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int tz = threadIdx.z;
  float C[64];
  __half D_lanes[8];
  __half D_lanes_1[8];
  #pragma unroll
  for (int j_init = 0; j_init < 2; ++j_init) {
    #pragma unroll
    for (int j_outer_outer_inner = 0; j_outer_outer_inner < 16; ++j_outer_outer_inner) {
      C[j_outer_outer_inner * 4 + j_init] = 0.0f;
      C[j_outer_outer_inner * 4 + j_init + 2] = 0.0f;
    }
  }
  for (int k_outer_outer = 0; k_outer_outer < 2; ++k_outer_outer) {
    wgmma_show();
    __syncthreads();
    for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
      *(uint4*)(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8) = *(const uint4*)(A + bx * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + k_outer_outer * 64 + (ty & 1) * 32 + tx * 8);
    }
    for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 8; ++ax0_ax1_fused_outer_outer_outer_outer) {
      *(uint4*)(B_shared + ((ty >> 1) & 1) * 4096 + ax0_ax1_fused_outer_outer_outer_outer * 512 + tz * 128 + (ty >> 2) * 64 + (((ty & 1) * 4 + tx) ^ (tz * 2 + (ty >> 2))) * 8) = *(const uint4*)(B + k_outer_outer * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + ty * 32 + tx * 8);
    }
    wgmma_fence();
    wgmma_show();
    __syncthreads();
    wgmma_m64n128k16_f16<0, 1>(C[0], A_shared[0], 0, B_shared[0], 0, 8192, 8192);
    wgmma_m64n128k16_f16<0, 1>(C[0], A_shared[0], 16, B_shared[0], 1024, 8192, 8192);
    wgmma_m64n128k16_f16<0, 1>(C[0], A_shared[0], 32, B_shared[0], 2048, 8192, 8192);
    wgmma_m64n128k16_f16<0, 1>(C[0], A_shared[0], 48, B_shared[0], 3072, 8192, 8192);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_sums<64>(C[0]);
  }
  #pragma unroll
  for (int j_outer_outer_inner_group = 0; j_outer_outer_inner_group < 4; ++j_outer_outer_inner_group) {
    D_lanes[0] = __float2half(C[j_outer_outer_inner_group * 16]);
    D_lanes[1] = __float2half(C[j_outer_outer_inner_group * 16 + 1]);
    D_lanes[2] = __float2half(C[j_outer_outer_inner_group * 16 + 4]);
    D_lanes[3] = __float2half(C[j_outer_outer_inner_group * 16 + 4 + 1]);
    D_lanes[4] = __float2half(C[j_outer_outer_inner_group * 16 + 8]);
    D_lanes[5] = __float2half(C[j_outer_outer_inner_group * 16 + 8 + 1]);
    D_lanes[6] = __float2half(C[j_outer_outer_inner_group * 16 + 12]);
    D_lanes[7] = __float2half(C[j_outer_outer_inner_group * 16 + 12 + 1]);
    exchange_pairs_f16(D_lanes[0], tx);
    __align__(16) __half lanes[8] = {D_lanes[0], D_lanes[1], D_lanes[2], D_lanes[3], D_lanes[4], D_lanes[5], D_lanes[6], D_lanes[7]};
    *(uint4*)(D + bx * 8192 + tz * 2048 + ty * 128 + j_outer_outer_inner_group * 32 + tx * 8) = *(const uint4*)lanes;
    D_lanes_1[0] = __float2half(C[j_outer_outer_inner_group * 16 + 2]);
    D_lanes_1[1] = __float2half(C[j_outer_outer_inner_group * 16 + 2 + 1]);
    D_lanes_1[2] = __float2half(C[j_outer_outer_inner_group * 16 + 6]);
    D_lanes_1[3] = __float2half(C[j_outer_outer_inner_group * 16 + 6 + 1]);
    D_lanes_1[4] = __float2half(C[j_outer_outer_inner_group * 16 + 10]);
    D_lanes_1[5] = __float2half(C[j_outer_outer_inner_group * 16 + 10 + 1]);
    D_lanes_1[6] = __float2half(C[j_outer_outer_inner_group * 16 + 14]);
    D_lanes_1[7] = __float2half(C[j_outer_outer_inner_group * 16 + 14 + 1]);
    exchange_pairs_f16(D_lanes_1[0], tx);
    __align__(16) __half lanes_1[8] = {D_lanes_1[0], D_lanes_1[1], D_lanes_1[2], D_lanes_1[3], D_lanes_1[4], D_lanes_1[5], D_lanes_1[6], D_lanes_1[7]};
    *(uint4*)(D + bx * 8192 + tz * 2048 + ty * 128 + j_outer_outer_inner_group * 32 + tx * 8 + 1024) = *(const uint4*)lanes_1;
  }
}
