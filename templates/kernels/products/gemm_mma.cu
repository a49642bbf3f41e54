// GEMM by mma.sync: C[M, N] = A[M, K] B[K, N] of 16-bit floats, accumulated in float32; operands.h says how A and B are
// stored. With TF32, A, B and C are floats. With INT8 each 16-bit item holds two 8-bit integers, K counts items along K,
// of K_ROWS integers, and C and the accumulators are int32. C has C_M rows and C_N columns.
//
// A block computes a tile of WARPS_M * FRAGS_M * 16 by WARPS_N * FRAGS_N * 8 of C over one of SPLIT ranges of K; a warp
// has FRAGS_M x FRAGS_N accumulator fragments of 16 x 8. cp.async copies K tiles of A and B into a pipeline of STAGES
// stages; rows in shared memory are padded so that ldmatrix has no bank conflicts. Partial sums of a split are
// reduced by `gemm_mma_reduce`.
constexpr int WARP_M = FRAGS_M * 16, WARP_N = FRAGS_N * 8;
constexpr int TILE_M = WARPS_M * WARP_M, TILE_N = WARPS_N * WARP_N;
constexpr int K_TILES = (K_PER_SPLIT + CHUNK - 1) / CHUNK;
// Integers that are stored across K (mma_int8_across.h): a row of a tile has one place along K, and items two neighbours.
#if INT8
constexpr int PLACES = 2, BESIDE = 2;
#else
constexpr int PLACES = 1, BESIDE = 1, K_ROWS = K;
#endif
constexpr int A_PITCH = TRANSPOSE_A ? TILE_M / BESIDE + 8 : CHUNK + VECTOR;
constexpr int B_PITCH = TRANSPOSE_B ? CHUNK + VECTOR : TILE_N / BESIDE + 8;
constexpr int A_SIZE = (TRANSPOSE_A ? CHUNK * PLACES : TILE_M) * A_PITCH;
constexpr int B_SIZE = (TRANSPOSE_B ? TILE_N : CHUNK * PLACES) * B_PITCH;
constexpr int BLOCKS_M = (M + TILE_M - 1) / TILE_M, BLOCKS_N = (N + TILE_N - 1) / TILE_N;
constexpr int C_ALL_N = IN_GROUPS ? BATCH * C_N : C_N, LAST_COLUMN = C_N % 2 ? C_N - 1 : C_N - 2;
#define FINISHED (FOLLOWS && SPLIT == 1)
// Four neighbouring threads hold 8 columns of a row of a fragment, 16 bytes of 16-bit floats. They exchange those of
// four fragments side by side, so that each has one: rows are then written 64 bytes at a time, two whole sectors.
#define IN_EIGHTS (!INT8 && !TF32 && SPLIT == 1 && FRAGS_N % 4 == 0 && C_N % 8 == 0)
// Where tiles divide the extents, bounds checks are constant and vanish.
constexpr bool WHOLE_M = M % TILE_M == 0, WHOLE_N = N % TILE_N == 0;
constexpr bool WHOLE_K = K_PER_SPLIT * SPLIT == K && K_PER_SPLIT % CHUNK == 0 && K * PLACES == K_ROWS;

typedef unsigned short half_bits;
#if INT8
typedef int Sum;
#else
typedef float Sum;
#endif
#if TF32
typedef float Finished;
#else
typedef half_bits Finished;
#endif

#if STRIPS
template <>
__device__ __forceinline__ half_bits element_of<half_bits>(float x) {
  return static_cast<half_bits>(pack_pair(x, x));
}
#endif

template <int WORDS>
__device__ __forceinline__ void copy_words(Item* dst, const Item* src, bool valid) {
  copy_async<WORDS>(reinterpret_cast<float*>(dst), reinterpret_cast<const float*>(src), valid);
}

// Returns whether place `k` along K of an operand stored across K, of the K tile from item k0 on, is one of a range.
__device__ __forceinline__ bool place_exists(int k0, int k, int k_end) {
  const int place = k0 * PLACES + k;
  return place < k_end * PLACES && place < K_ROWS;
}

__device__ __forceinline__ void stage_a(
    Item* dst, const Item* __restrict__ a, int m0, int k0, int k_end, int tid) {
#if TRANSPOSE_A
  const Item* const from = a + static_cast<size_t>(k0) * PLACES * (M / BESIDE) + m0 / BESIDE;
  each_vector<CHUNK * PLACES, TILE_M / BESIDE / WORD / A_WORDS>(tid, [&](int k, int vector) {
    const int item = vector * A_WORDS * WORD;
    const bool valid = (WHOLE_M || m0 + item * BESIDE < M) && (WHOLE_K || place_exists(k0, k, k_end));
    copy_words<A_WORDS>(dst + k * A_PITCH + item, from + static_cast<long long>(k) * (M / BESIDE) + item, valid);
  });
#else
#if !CONV
  const Item* const from = a + static_cast<size_t>(m0) * K + k0;
#endif
  each_vector<TILE_M, CHUNK / WORD / A_WORDS>(tid, [&](int row, int vector) {
    const int k = vector * A_WORDS * WORD;
    bool valid = (WHOLE_M || m0 + row < M) && (WHOLE_K || k0 + k < k_end);
#if CONV
    const long long offset = window_element(m0 + row, k0 + k, valid);
    copy_words<A_WORDS>(dst + row * A_PITCH + k, a + offset, valid);
#else
    copy_words<A_WORDS>(dst + row * A_PITCH + k, from + static_cast<long long>(row) * K + k, valid);
#endif
  });
#endif
}

__device__ __forceinline__ void stage_b(
    Item* dst, const Item* __restrict__ b, int n0, int k0, int k_end, int tid) {
#if TRANSPOSE_B
  const Item* const from = b + static_cast<size_t>(n0) * K + k0;
  each_vector<TILE_N, CHUNK / WORD / B_WORDS>(tid, [&](int column, int vector) {
    const int k = vector * B_WORDS * WORD;
    const bool valid = (WHOLE_N || n0 + column < N) && (WHOLE_K || k0 + k < k_end);
    copy_words<B_WORDS>(
        dst + column * B_PITCH + k, from + static_cast<long long>(column) * K + k, valid);
  });
#else
  const Item* const from = b + static_cast<size_t>(k0) * PLACES * (ALL_N / BESIDE) + n0 / BESIDE;
  each_vector<CHUNK * PLACES, TILE_N / BESIDE / WORD / B_WORDS>(tid, [&](int k, int vector) {
    const int item = vector * B_WORDS * WORD;
    const bool valid = (WHOLE_N || n0 + item * BESIDE < N) && (WHOLE_K || place_exists(k0, k, k_end));
    copy_words<B_WORDS>(dst + k * B_PITCH + item, from + static_cast<long long>(k) * (ALL_N / BESIDE) + item, valid);
  });
#endif
}

#if INT8 && TRANSPOSE_A
#define LOAD_LEFT load_left_across
#else
#define LOAD_LEFT load_left<TRANSPOSE_A>
#endif
#if INT8 && !TRANSPOSE_B
#define LOAD_RIGHT load_right_across
#else
#define LOAD_RIGHT load_right<TRANSPOSE_B>
#endif

// Returns the row of a warp's tile that a thread has in a half of fragment `i`.
__device__ __forceinline__ int row_of(int i, int half, int lane) {
#if INT8 && TRANSPOSE_A
  return i * 16 + row_of_pair(lane / 4, half);
#else
  return i * 16 + half * 8 + lane / 4;
#endif
}

__device__ __forceinline__ void accumulate(
    Sum (&sum)[FRAGS_M][FRAGS_N][4], const Item* a, const Item* b, int lane) {
#pragma unroll
  for (int k = 0; k < CHUNK; k += DEPTH) {
    unsigned left[FRAGS_M][4], right[FRAGS_N / 2][4];
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i) {
      const Item* const tile = TRANSPOSE_A ? a + k * PLACES * A_PITCH + i * 16 / BESIDE : a + i * 16 * A_PITCH + k;
      LOAD_LEFT(left[i], tile, A_PITCH, lane);
    }
#pragma unroll
    for (int j = 0; j < FRAGS_N / 2; ++j) {
      const Item* const tile = TRANSPOSE_B ? b + j * 16 * B_PITCH + k : b + k * PLACES * B_PITCH + j * 16 / BESIDE;
      LOAD_RIGHT(right[j], tile, B_PITCH, lane);
    }
#pragma unroll
    for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j)
        multiply_add(sum[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1], lane);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) gemm_mma(
    const Item* __restrict__ a, const Item* __restrict__ b,
    EPILOGUE_PARAMETERS RESULT* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  Item* const as = reinterpret_cast<Item*>(shared_memory);
  Item* const bs = as + STAGES * A_SIZE;

  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;
  // Rasterisation in bands of BAND tiles along M, so that concurrent tiles share rows and columns of the operands in
  // L2.
#if BATCH > 1
  const int which = blockIdx.x / (BLOCKS_M * BLOCKS_N), tile = blockIdx.x % (BLOCKS_M * BLOCKS_N);
  a += static_cast<size_t>(which) * A_STRIDE;
  b += static_cast<size_t>(which) * B_STRIDE;
#else
  const int which = 0, tile = blockIdx.x;
#endif
  const int band = tile / (BAND * BLOCKS_N), first = band * BAND;
  const int height = BLOCKS_M - first < BAND ? BLOCKS_M - first : BAND;
  const int inside = tile - first * BLOCKS_N;
  const int m0 = (first + inside % height) * TILE_M, n0 = inside / height * TILE_N;
  const int k_begin = blockIdx.y * K_PER_SPLIT;
  const int k_end = k_begin + K_PER_SPLIT < K ? k_begin + K_PER_SPLIT : K;

  auto stage = [&](int k_tile, int buffer) {
    const int k0 = k_begin + k_tile * CHUNK;
    if (k_tile < K_TILES) {
      stage_a(as + buffer * A_SIZE, a, m0, k0, k_end, tid);
      stage_b(bs + buffer * B_SIZE, b, n0, k0, k_end, tid);
    }
    copy_commit();
  };

  Sum sum[FRAGS_M][FRAGS_N][4];
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i)
#pragma unroll
    for (int j = 0; j < FRAGS_N; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[i][j][r] = 0;

  const Item* const left = as + (TRANSPOSE_A ? warp_m / BESIDE : warp_m * A_PITCH);
  const Item* const right = bs + (TRANSPOSE_B ? warp_n * B_PITCH : warp_n / BESIDE);
#pragma unroll
  for (int k_tile = 0; k_tile < STAGES - 1; ++k_tile) stage(k_tile, k_tile);
  int buffer = 0, free_buffer = STAGES - 1;
#pragma unroll 1
  for (int k_tile = 0; k_tile < K_TILES; ++k_tile) {
    copy_wait<STAGES - 2>();
    __syncthreads();
    stage(k_tile + STAGES - 1, free_buffer);
    accumulate(sum, left + buffer * A_SIZE, right + buffer * B_SIZE, lane);
    free_buffer = buffer;
    buffer = buffer + 1 == STAGES ? 0 : buffer + 1;
  }

#if FOLLOWS
  EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif
#ifdef GROUPED
  const int channel = which * C_N;  // the first of the group; copies may have more
  out += channel;
#if FOLLOWS
  epilogue = {bias + channel, residual + channel, scale + channel, shift + channel};
#endif
#endif
#if SPLIT > 1
  out += static_cast<size_t>(blockIdx.y) * BATCH * C_M * C_N;
#endif
  const size_t matrix = IN_GROUPS ? 0 : static_cast<size_t>(which) * C_M * C_N;
#if STRIPS
  constexpr int COUNT = FRAGS_N < STRIP_FRAGMENTS ? FRAGS_N : STRIP_FRAGMENTS;
  float* const strip = reinterpret_cast<float*>(shared_memory) + warp * FLOATS_OF_STRIP;
  __syncthreads();  // strips are where the stages were
#endif
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = m0 + warp_m + row_of(i, half, lane);
      const bool row_exists = (WHOLE_M && C_M >= M) || m < C_M;
      const size_t row = matrix + static_cast<size_t>(row_exists ? m : C_M - 1) * C_ALL_N;
      auto finished = [&](int j, auto write) {
        const int n = n0 + warp_n + j * 8 + lane % 4 * 2;
        Sum low = sum[i][j][half * 2], high = sum[i][j][half * 2 + 1];
        const bool exists = row_exists && ((WHOLE_N && C_N >= N) || n < C_N);
#if FINISHED
        // Rows and columns beyond C are clamped to the last: without branches a thread loads what all of its columns
        // need at once.
        const int column = (WHOLE_N && C_N >= N) || n < LAST_COLUMN ? n : LAST_COLUMN;
        finish_pair(low, high, epilogue, column, row + column), low = last_step(low), high = last_step(high);
#endif
        write(n, low, high, exists);
      };
#if STRIPS
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j)
        finished(j, [&](int, float low, float high, bool) { sum[i][j][half * 2] = low, sum[i][j][half * 2 + 1] = high; });
#elif IN_EIGHTS
#pragma unroll
      for (int j = 0; j < FRAGS_N; j += 4) {
        unsigned word[4];
#pragma unroll
        for (int f = 0; f < 4; ++f)
          finished(j + f, [&](int, float low, float high, bool) { word[f] = pack_pair(low, high); });
        transpose_four(word, lane);
        const int n = n0 + warp_n + (j + lane % 4) * 8;
        if (row_exists && ((WHOLE_N && C_N >= N) || n < C_N))
          *reinterpret_cast<uint4*>(out + row + n) = make_uint4(word[0], word[1], word[2], word[3]);
      }
#elif INT8 && !TRANSPOSE_B
      // Of two fragments side by side a thread has four neighbouring columns, which 4 divides.
#pragma unroll
      for (int j = 0; j < FRAGS_N; j += 2) {
        const int n = n0 + warp_n + j * 8 + lane % 4 * 4;
        const Sum(&first)[4] = sum[i][j], (&second)[4] = sum[i][j + 1];
        if (row_exists && (WHOLE_N || n < N))
          *reinterpret_cast<int4*>(out + row + n) =
              make_int4(first[half * 2], second[half * 2], first[half * 2 + 1], second[half * 2 + 1]);
      }
#else
#pragma unroll
      for (int j = 0; j < FRAGS_N; ++j)
        finished(j, [&](int n, Sum low, Sum high, bool exists) {
          if (exists) write_pair(out, row + n, n, low, high);
        });
#endif
    }
#if STRIPS
    const int m = m0 + warp_m + i * 16;
#pragma unroll
    for (int j = 0; j < FRAGS_N; j += COUNT) {
      const int n = n0 + warp_n + j * 8;
      write_float_strip<COUNT, false>(
          out + matrix + static_cast<size_t>(m) * C_ALL_N + n, strip, sum[i][j], C_M - m, C_N - n, C_ALL_N, lane);
    }
#endif
  }
}

#if SPLIT > 1
extern "C" __global__ void __launch_bounds__(128) gemm_mma_reduce(
    const float* __restrict__ partial, EPILOGUE_PARAMETERS Finished* __restrict__ out) {
  constexpr size_t SIZE = static_cast<size_t>(BATCH) * C_M * C_N;
  constexpr int COUNT = C_N % 2 ? 1 : 2;
  const size_t i = (static_cast<size_t>(blockIdx.x) * 128 + threadIdx.x) * COUNT;
  if (i >= SIZE) return;
  float sums[COUNT];
  add_parts<SPLIT>(sums, partial + i, SIZE);
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
  finish<1>(sums, epilogue, static_cast<int>(i % C_ALL_N), i);
#pragma unroll
  for (int v = 0; v < COUNT; ++v) sums[v] = last_step(sums[v]);
#endif
#if TF32
  store_vector<COUNT>(out + i, sums);
#else
  const unsigned pair = pack_pair(sums[0], sums[COUNT - 1]);
  if (COUNT == 2)
    *reinterpret_cast<unsigned*>(out + i) = pair;
  else
    out[i] = static_cast<half_bits>(pair);
#endif
}
#endif
