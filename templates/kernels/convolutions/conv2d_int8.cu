// Convolutions of NHWC images of 8-bit integers as implicit GEMM by mma.sync, with their requantisation (requantise.h).
//
// Row m of the left operand is the window of output pixel m, in the order filter row, filter column, channel, which is
// that of the weights OHWI of a filter; the right operand has N filters, K bytes each. A block computes WARPS_M *
// FRAGS_M * 16 pixels by WARPS_N * FRAGS_N * 8 filters of a group over one of SPLIT ranges of K, and WARPS_K warps
// divide each K tile among themselves, so that few pixels keep a multiprocessor busy too. cp.async gathers windows in
// copies of VEC bytes, 1 meaning bytes one by one; outside of images threads store the zero point. (Copies of zero points
// from global memory were twice as slow: all of them read the same sector of L2.)
//
// With WGMMA warpgroups multiply instead: each has FRAGS_M * 64 pixels by all filters of the block, K tiles are panels of
// 128 bytes with swizzle (wgmma.h), and while one is multiplied, the next but one is copied. mma.sync of bytes has a
// quarter of its rate on Hopper, an instruction in 16 cycles of a scheduler, but smaller tiles.
//
// A thread has the sums of columns 2q, 2q + 1 of each fragment (q = lane % 4). Filters are staged in an order in which
// these are eight neighbours in four fragments, so that threads write results of eight channels at once.
#if WGMMA
#undef SUMS_4
#define SUMS_4(i) "+r"(sum[i]), "+r"(sum[i + 1]), "+r"(sum[i + 2]), "+r"(sum[i + 3])
DEFINE_WGMMAS(issue_wgmma, "")
#endif
constexpr int WARP_M = FRAGS_M * 16, WARP_N = FRAGS_N * 8;
constexpr int TILE_M = WARPS_M * WARP_M, TILE_N = WARPS_N * WARP_N, K_TILES = (K_PER_SPLIT + CHUNK - 1) / CHUNK;
constexpr int BLOCKS_M = (M + TILE_M - 1) / TILE_M, STEPS = CHUNK / 32 / WARPS_K;
// Rows in shared memory are padded by 16 bytes, so that ldmatrix has no bank conflicts.
constexpr int PITCH = WGMMA ? CHUNK : CHUNK + 16, STAGE = (TILE_M + TILE_N) * PITCH;
constexpr int WIDE = VEC < 4 ? 4 : VEC, VECTORS = CHUNK / WIDE, SWEEP = THREADS / VECTORS;
constexpr int PASSES = (TILE_M + SWEEP - 1) / SWEEP;
constexpr bool WHOLE_K = K_PER_SPLIT * SPLIT == K && K_PER_SPLIT % CHUNK == 0, PADS = PAD_TOP || PAD_LEFT || CUT;

typedef unsigned char Byte;
#if SPLIT > 1
typedef int Stored;
#define END_PARAMETERS
#else
typedef Result Stored;
#define END_PARAMETERS REQUANTISE_PARAMETERS
#endif

// Where the window of an output pixel begins: its offset in the images, its row and its column.
struct Window {
  int offset, y, x;
};

__device__ __forceinline__ Window window_of(int m, int group) {
  const int pixel = m < M ? m : M - 1, y = pixel / OW % OH * SY - PAD_TOP, x = pixel % OW * SX - PAD_LEFT;
  return {((pixel / (OW * OH) * IH + y) * IW + x) * CI + group * GROUP_CI, y, x};
}

// Returns the address of byte k of a window; null outside of its image.
__device__ __forceinline__ const Byte* byte_at(const Byte* __restrict__ data, const Window& window, int k) {
  const int tap = k / GROUP_CI, dy = tap / KW * DY, dx = tap % KW * DX;
  const bool inside = !PADS || (static_cast<unsigned>(window.y + dy) < IH && static_cast<unsigned>(window.x + dx) < IW);
  return inside ? data + (window.offset + (dy * IW + dx) * CI + k % GROUP_CI) : nullptr;
}

// Puts WIDE bytes from k on into shared memory, where `source` is the address of each, or null, which stands for the
// zero point; beyond `end`, and where nothing exists, they are zeros.
template <bool HAS_NULL, class Source>
__device__ __forceinline__ void stage_bytes(Byte* to, int k, int end, bool exists, Source source) {
  if (VEC < 4) {
    unsigned word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Byte* const from = exists && k + i < end ? source(k + i) : nullptr;
      word |= (from ? *from : HAS_NULL ? DATA_ZERO_WORD & 0xff : 0) << 8 * i;
    }
    *reinterpret_cast<unsigned*>(to) = word;
  } else {
    const bool valid = exists && (WHOLE_K || k < end);
    const Byte* const from = source(WHOLE_K || k < end ? k : 0);
    if (HAS_NULL && DATA_ZERO && !from) {
#pragma unroll
      for (int i = 0; i < WIDE; i += 4) *reinterpret_cast<unsigned*>(to + i) = DATA_ZERO_WORD;
    } else {
      copy_async<WIDE / 4>(
          reinterpret_cast<float*>(to), reinterpret_cast<const float*>(from), valid && (!HAS_NULL || from));
    }
  }
}

// Returns the row of shared memory of a filter: see above.
__device__ __forceinline__ int place_of(int filter) {
  return filter / 32 * 32 + filter % 8 / 2 * 8 + filter % 32 / 8 * 2 + filter % 2;
}

// sum += left * right of one 16 x 8 tile and 32 bytes along K; the left bytes have a sign with DATA_SIGNED.
__device__ __forceinline__ void add_products(
    int (&sum)[4], const unsigned (&left)[4], unsigned right0, unsigned right1, int lane) {
#if DATA_SIGNED
  multiply_add(sum, left, right0, right1, lane);
#elif defined(AUTOTUNE_EMULATE)
  const unsigned half = 0x80808080u, ones[4] = {0x40404040u, 0x40404040u, 0x40404040u, 0x40404040u};
  const unsigned less[4] = {left[0] ^ half, left[1] ^ half, left[2] ^ half, left[3] ^ half};
  multiply_add(sum, less, right0, right1, lane);
  multiply_add(sum, ones, right0, right1, lane);  // 64, twice
  multiply_add(sum, ones, right0, right1, lane);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
#endif
}

// Returns where a byte of a row is in shared memory.
__device__ __forceinline__ int cell(int row, int byte) {
  return row * PITCH + (WGMMA ? byte ^ row % 8 * 16 : byte);
}

// Returns the row of a block's tile of the first sum of a thread in a half of a fragment: `i` counts halves.
__device__ __forceinline__ int row_of(int warp, int i, int lane) {
  const int first = WGMMA ? warp / 4 * (FRAGS_M * 64) + i / 2 * 64 + warp % 4 * 16 : warp / WARPS_N * WARP_M + i / 2 * 16;
  return first + i % 2 * 8 + lane / 4;
}

#if WGMMA
typedef int Sums[FRAGS_M][FRAGS_N * 4];
#define SUM(i, j, word) sums[i][(j) * 4 + (word)]

// Starts the products of one K tile.
__device__ __forceinline__ void start_products(Sums& sums, unsigned left, unsigned right) {
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
    for (int k = 0; k < CHUNK; k += 32)
      issue_wgmma(sums[i], make_descriptor(left + i * 64 * CHUNK, 0) + descriptor_offset(k),
                  make_descriptor(right, 0) + descriptor_offset(k), true);
  wgmma_commit();
}
#else
typedef int Sums[FRAGS_M][FRAGS_N][4];
#define SUM(i, j, word) sums[i][j][word]

// Adds the products of one K tile; `k` is the first byte of this warp's part.
__device__ __forceinline__ void accumulate(Sums& sums, const Byte* left, const Byte* right, int lane) {
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    unsigned a[FRAGS_M][4], b[FRAGS_N / 2][4];
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
      load_left<false>(a[i], reinterpret_cast<const Item*>(left + i * 16 * PITCH + step * 32), PITCH / 2, lane);
#pragma unroll
    for (int j = 0; j < FRAGS_N / 2; ++j)
      load_right<true>(b[j], reinterpret_cast<const Item*>(right + j * 16 * PITCH + step * 32), PITCH / 2, lane);
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j) add_products(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1], lane);
  }
}

// Adds the sums of the warps that divide K tiles, by halves; those of the first have the total.
__device__ __forceinline__ void add_warps(Sums& sums, int* shared, int warp_k, int thread) {
  constexpr int OTHERS = THREADS / WARPS_K;
#pragma unroll
  for (int half = WARPS_K / 2; half > 0; half /= 2) {
    __syncthreads();
    int* const mine = shared + (warp_k % half) * OTHERS * (FRAGS_M * FRAGS_N * 4) + thread;
    const bool gives = warp_k >= half && warp_k < 2 * half;
#pragma unroll
    for (int i = 0; i < FRAGS_M * FRAGS_N * 4; ++i)
      if (gives) mine[i * OTHERS] = sums[i / 4 / FRAGS_N][i / 4 % FRAGS_N][i % 4];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < FRAGS_M * FRAGS_N * 4; ++i)
      if (warp_k < half) sums[i / 4 / FRAGS_N][i / 4 % FRAGS_N][i % 4] += mine[i * OTHERS];
  }
}

#endif

extern "C" __global__ void __launch_bounds__(THREADS) conv2d_int8(
    const Byte* __restrict__ data, const Byte* __restrict__ weight, END_PARAMETERS Stored* __restrict__ out) {
  extern __shared__ __align__(1024) uint4 shared_memory[];
  Byte* const shared = reinterpret_cast<Byte*>(shared_memory);
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32 % (WARPS_M * WARPS_N);
  const int warp_k = tid / (32 * WARPS_M * WARPS_N), warp_n = WGMMA ? 0 : warp % WARPS_N * WARP_N;
  const int m0 = blockIdx.x % BLOCKS_M * TILE_M, n0 = blockIdx.x / BLOCKS_M * TILE_N, group = blockIdx.z;
  const int k_begin = blockIdx.y * K_PER_SPLIT, k_end = k_begin + K_PER_SPLIT < K ? k_begin + K_PER_SPLIT : K;
  const int vector = tid % VECTORS * WIDE, row0 = tid / VECTORS;
  const Byte* const filters = weight + static_cast<size_t>(group) * N * K;

  Window window[PASSES];
#pragma unroll
  for (int pass = 0; pass < PASSES; ++pass) window[pass] = window_of(m0 + pass * SWEEP + row0, group);

  auto stage = [&](int k_tile, int buffer) {
    if (k_tile < K_TILES) {
      Byte* const to = shared + buffer * STAGE;
      const int k = k_begin + k_tile * CHUNK + vector;
#pragma unroll
      for (int pass = 0; pass < PASSES; ++pass) {
        const int row = pass * SWEEP + row0;
        if (TILE_M % SWEEP == 0 || row < TILE_M)
          stage_bytes<PADS>(to + cell(row, vector), k, k_end, M % TILE_M == 0 || m0 + row < M,
                      [&](int at) { return byte_at(data, window[pass], at); });
      }
#pragma unroll
      for (int pass = 0; pass < (TILE_N + SWEEP - 1) / SWEEP; ++pass) {
        const int row = pass * SWEEP + row0;
        if (TILE_N % SWEEP == 0 || row < TILE_N)
          stage_bytes<false>(to + cell(TILE_M + place_of(row), vector), k, k_end, N % TILE_N == 0 || n0 + row < N,
                      [&](int at) { return filters + static_cast<size_t>(n0 + row) * K + at; });
      }
    }
    copy_commit();
  };

  Sums sums = {};
#if WGMMA
  // A buffer is written again once its products are complete in all warpgroups, which a barrier says two K tiles later.
  const unsigned left = shared_address(shared) + warp / 4 * (FRAGS_M * 64 * CHUNK);
  const unsigned right = shared_address(shared) + TILE_M * CHUNK;
#pragma unroll
  for (int k_tile = 0; k_tile < STAGES - 2; ++k_tile) stage(k_tile, k_tile);
  int buffer = 0, free_buffer = STAGES - 2;
#pragma unroll 1
  for (int k_tile = 0; k_tile < K_TILES; ++k_tile) {
    copy_wait<STAGES - 3>();
    fence_proxy_async();
    __syncthreads();
    start_products(sums, left + buffer * STAGE, right + buffer * STAGE);
    stage(k_tile + STAGES - 2, free_buffer);
    wgmma_wait<1>();
    buffer = buffer + 1 == STAGES ? 0 : buffer + 1;
    free_buffer = free_buffer + 1 == STAGES ? 0 : free_buffer + 1;
  }
  wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) fence_accumulators(sums[i]);
#else
  const int first = warp_k * STEPS * 32;
  const Byte* const left = shared + row_of(warp, 0, 0) * PITCH + first;
  const Byte* const right = shared + (TILE_M + warp_n) * PITCH + first;
#pragma unroll
  for (int k_tile = 0; k_tile < STAGES - 1; ++k_tile) stage(k_tile, k_tile);
  int buffer = 0, free_buffer = STAGES - 1;
#pragma unroll 1
  for (int k_tile = 0; k_tile < K_TILES; ++k_tile) {
    copy_wait<STAGES - 2>();
    __syncthreads();
    stage(k_tile + STAGES - 1, free_buffer);
    accumulate(sums, left + buffer * STAGE, right + buffer * STAGE, lane);
    free_buffer = buffer;
    buffer = buffer + 1 == STAGES ? 0 : buffer + 1;
  }
  if (WARPS_K > 1) {
    copy_wait<0>();
    add_warps(sums, reinterpret_cast<int*>(shared), warp_k, tid % (THREADS / WARPS_K));
    if (warp_k > 0) return;
  }
#endif
#if SPLIT > 1
  out += static_cast<size_t>(blockIdx.y) * M * CO;
#endif
#pragma unroll
  for (int j = 0; j < FRAGS_N; j += 4) {
    const int n = n0 + warp_n + j * 8 + lane % 4 * 8, channel = group * N + n;
    if (n >= N) break;
#if SPLIT == 1
    const Channels<8> end = channels<8>(REQUANTISATION, channel, N - n);
#endif
#pragma unroll
    for (int i = 0; i < FRAGS_M * 2; ++i) {
      const int m = m0 + row_of(warp, i, lane);
      if (M % TILE_M && m >= M) break;
      int total[8];
#pragma unroll
      for (int c = 0; c < 8; ++c) total[c] = SUM(i / 2, j + c / 2, i % 2 * 2 + c % 2);
      const size_t at = static_cast<size_t>(m) * CO + channel;
#if SPLIT > 1
#pragma unroll
      for (int c = 0; c < 8; ++c)
        if (N % 8 == 0 || n + c < N) out[at + c] = total[c];
#else
      write_results<N % 8 == 0>(out, at, total, end, N - n RESIDUAL_POINTER);
#endif
    }
  }
}

#if SPLIT > 1
// Adds the sums of all ranges of K.
extern "C" __global__ void __launch_bounds__(128) conv2d_int8_reduce(
    const int* __restrict__ partial, REQUANTISE_PARAMETERS Result* __restrict__ out) {
  constexpr int COUNT = CO % 4 ? 1 : 4;
  constexpr size_t SIZE = static_cast<size_t>(M) * CO;
  const size_t at = (static_cast<size_t>(blockIdx.x) * 128 + threadIdx.x) * COUNT;
  if (at >= SIZE) return;
  int total[COUNT] = {};
#pragma unroll
  for (int part = 0; part < SPLIT; ++part)
#pragma unroll
    for (int c = 0; c < COUNT; ++c) total[c] += partial[part * SIZE + at + c];
  write_results<true>(out, at, total, channels<COUNT>(REQUANTISATION, at % CO, COUNT), COUNT RESIDUAL_POINTER);
}
#endif
