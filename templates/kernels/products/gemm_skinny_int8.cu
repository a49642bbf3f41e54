// Skinny GEMM: C[M, N] = A[M, K] B of few rows of 8-bit integers, B stored as [K, N] or with TRANSPOSE_B as [N, K], A as
// [M, K] or with TRANSPOSE_A as [K, M]; bound by loading B. Warps load it from global memory to registers, each byte
// once for ROWS rows, AHEAD steps in advance. What is stored along K may be a copy with rows padded to K: the other
// operand has ROWS_K rows then.
//
// A warp owns a strip of 8 * VEC columns of C and a range of K. K is permuted, alike for both operands of an mma: of a
// step, quad lane q = lane % 4 has 16 * q to 16 * q + 15 along K, and row g = lane / 4 has VEC neighbouring columns of
// the strip, one in each of VEC mma. So lanes load whole vectors of either operand; of one that is stored along its
// rows or columns, blocks of 4 x 4 integers are transposed in registers. Rows of an A stored as [K, M] are permuted too:
// a lane has neighbouring ones. Rows in memory of no multiple of 4 are loaded by unaligned words (unaligned_words.h).
//
// Split-K: RANGES warps of a block, and SPLIT blocks, have different ranges of K of the same columns. Partial sums of a
// block are reduced through shared memory, those of the blocks of a cluster through its distributed shared memory; of
// more blocks each writes its sums, and `gemm_skinny_int8_reduce` adds them. Integers are exact in any order.
constexpr int LENGTH = 16, STEP = 4 * LENGTH, STRIP = 8 * VEC, ROWS = FRAGS_M * 16, QUADS = STRIP / 4;
constexpr int STEPS = (K + STEP - 1) / STEP, STEPS_EACH = (STEPS + RANGES * SPLIT - 1) / (RANGES * SPLIT);
// Padded, so that rows of sums which lanes store together start in different banks.
constexpr int PITCH = 9 * VEC, PART = ROWS * PITCH, SHARERS = CLUSTER ? SPLIT : 1;
constexpr bool WHOLE_M = M % ROWS == 0, WHOLE_N = N % (STRIP * STRIPS) == 0;
constexpr bool WHOLE_K = K % (STEP * RANGES * SPLIT) == 0;
// Words along K that a lane loads together, and those of four neighbouring rows of an A stored as [K, M].
constexpr int K_WORDS = K % 16 == 0 ? 4 : K % 8 == 0 ? 2 : 1, ROW_WORDS = (FRAGS_M + 1) / 2;
constexpr bool K_UNALIGNED = K % 4 > 0;
constexpr size_t A_SIZE = static_cast<size_t>(M) * (TRANSPOSE_A ? ROWS_K : K);
constexpr size_t B_SIZE = static_cast<size_t>(N) * (TRANSPOSE_B ? K : ROWS_K);

// Operands of a lane in a step: words of four integers along K of its rows, of fragments and their halves, and of its
// columns; of operands stored the other way words of four rows or columns for each place along K.
struct Step {
#if TRANSPOSE_A
  unsigned a[LENGTH][ROW_WORDS];
#else
  unsigned a[2 * FRAGS_M][LENGTH / 4];
#endif
#if TRANSPOSE_B
  unsigned b[VEC][LENGTH / 4];
#else
  unsigned b[LENGTH][VEC / 4];
#endif
};

struct Lane {
  const signed char *a, *b;
  int m, n, k;
  unsigned rest_a, rest_b;
};

// Loads WORDS words, zeros if they are out of bounds.
template <bool RESIDENT_HERE, int WORDS>
__device__ __forceinline__ void load_words(unsigned (&to)[WORDS], const signed char* from, bool exists) {
  if (WORDS == 4) {
    const uint4 four = exists ? load_weight<RESIDENT_HERE>(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
    to[0] = four.x, to[WORDS > 1 ? 1 : 0] = four.y, to[WORDS > 2 ? 2 : 0] = four.z, to[WORDS > 3 ? 3 : 0] = four.w;
  } else if (WORDS == 2) {
    const uint2 two = exists ? load_weight<RESIDENT_HERE>(reinterpret_cast<const uint2*>(from)) : make_uint2(0, 0);
    to[0] = two.x, to[WORDS > 1 ? 1 : 0] = two.y;
  } else {
    to[0] = exists ? load_weight<RESIDENT_HERE>(reinterpret_cast<const unsigned*>(from)) : 0;
  }
}

// Sets integers to zero from K on.
__device__ __forceinline__ void mask_from_end(unsigned (&words)[LENGTH / 4], int k) {
#pragma unroll
  for (int i = 0; i < LENGTH / 4; ++i) {
    const int there = K - k - i * 4;
    if (there < 4) words[i] = there > 0 ? words[i] & ((1u << there * 8) - 1) : 0;
  }
}

// Loads 16 integers along K of row `row` of an operand of ROWS, zeros from K on; of unaligned ones only with MASKED.
template <int ROWS_OF, bool MASKED, bool RESIDENT_HERE>
__device__ __forceinline__ void load_along_k(
    unsigned (&to)[LENGTH / 4], const signed char* from, int row, int start, int k, bool exists, unsigned rest) {
  if (K_UNALIGNED) {
    constexpr size_t SIZE = static_cast<size_t>(ROWS_OF) * K;
    load_unaligned<SIZE, K>(to, {from, k, start, exists, is_last(K, row, ROWS_OF)}, rest);
    if (MASKED && k + LENGTH > K) mask_from_end(to, k);
    return;
  }
#pragma unroll
  for (int i = 0; i < LENGTH / 4; i += K_WORDS) {
    unsigned words[K_WORDS];
    load_words<RESIDENT_HERE>(words, from + i * 4, exists && (WHOLE_K || k + i * 4 < K));
#pragma unroll
    for (int j = 0; j < K_WORDS; ++j) to[i + j] = words[j];
  }
}

// Loads WORDS words of each of 16 rows along K, from column `column` on, a multiple of 4.
template <int ROW, bool RESIDENT_HERE, int WORDS>
__device__ __forceinline__ void load_across(
    unsigned (&to)[LENGTH][WORDS], const signed char* from, int k, int column, bool exists, unsigned rest) {
#pragma unroll
  for (int i = 0; i < LENGTH; ++i) {
    const bool here = exists && ((WHOLE_K && ROWS_K == K) || (ROWS_K % LENGTH == 0 ? k : k + i) < ROWS_K);
    const signed char* const row = from + static_cast<size_t>(i) * ROW;
    if (ROW % 4 > 0) {
      constexpr size_t SIZE = static_cast<size_t>(ROW) * ROWS_K;
      load_unaligned<SIZE, ROW>(to[i], {row, column, i * (ROW % 4) % 4, here, is_last(ROW, k + i, ROWS_K)}, rest);
    } else {
      load_words<RESIDENT_HERE>(to[i], row, here);
    }
  }
}

// From K on one operand is zero, so that what the other one has there does not count.
template <bool RESIDENT_HERE>
__device__ __forceinline__ void load_step(Step& to, const Lane& at, int step, bool exists) {
  const int k = at.k + step * STEP;
#if TRANSPOSE_B
#pragma unroll
  for (int j = 0; j < VEC; ++j)
    load_along_k<N, false, RESIDENT_HERE>(
        to.b[j], at.b + static_cast<size_t>(j) * K + step * STEP, at.n + j, j * (K % 4) % 4, k,
        exists && (WHOLE_N || at.n + j < N), at.rest_b);
#else
  load_across<N, RESIDENT_HERE>(to.b, at.b + static_cast<size_t>(step * STEP) * N, k, at.n, exists && (WHOLE_N || at.n < N), at.rest_b);
#endif
#if TRANSPOSE_A
  load_across<M, true>(to.a, at.a + static_cast<size_t>(step * STEP) * M, k, at.m, exists && (WHOLE_M || at.m < M), at.rest_a);
#else
#pragma unroll
  for (int row = 0; row < 2 * FRAGS_M; ++row)
    load_along_k<M, true, true>(
        to.a[row], at.a + static_cast<size_t>(row * 8) * K + step * STEP, at.m + row * 8, at.m % 4 * (K % 4) % 4, k,
        exists && (WHOLE_M || at.m + row * 8 < M), at.rest_a);
#endif
}

// Returns words of four integers along K, of eight of them from word `first` on, of four neighbouring rows or columns.
template <int WORDS>
__device__ __forceinline__ void transposed_words(
    unsigned (&word)[2][4], const unsigned (&of)[LENGTH][WORDS], int first, int four) {
#pragma unroll
  for (int i = 0; i < 8; ++i) word[i / 4][i % 4] = of[first * 4 + i][four];
  transpose_int8(word[0]);
  transpose_int8(word[1]);
}

// Operands of the fragments of A of one mma, 32 along K.
typedef unsigned Left[FRAGS_M][4];

__device__ __forceinline__ void left_operands(Left& left, const Step& of, int first) {
#if TRANSPOSE_A
#pragma unroll
  for (int four = 0; four < ROW_WORDS; ++four) {
    unsigned word[2][4];
    transposed_words(word, of.a, first, four);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = four * 4 + i;
      if (row < 2 * FRAGS_M) left[row / 2][row % 2] = word[0][i], left[row / 2][2 + row % 2] = word[1][i];
    }
  }
#else
#pragma unroll
  for (int row = 0; row < 2 * FRAGS_M; ++row)
    left[row / 2][row % 2] = of.a[row][first], left[row / 2][2 + row % 2] = of.a[row][first + 1];
#endif
}

// Accumulates the mma of column `j` and 32 along K.
__device__ __forceinline__ void multiply_column(
    int (&sum)[FRAGS_M][VEC][4], const Left& left, int j, unsigned right0, unsigned right1, int lane) {
#pragma unroll
  for (int f = 0; f < FRAGS_M; ++f) multiply_add(sum[f][j], left[f], right0, right1, lane);
}

__device__ __forceinline__ void multiply_step(int (&sum)[FRAGS_M][VEC][4], const Step& of, int lane) {
#pragma unroll
  for (int first = 0; first < LENGTH / 4; first += 2) {
    Left left;
    left_operands(left, of, first);
#if TRANSPOSE_B
#pragma unroll
    for (int j = 0; j < VEC; ++j) multiply_column(sum, left, j, of.b[j][first], of.b[j][first + 1], lane);
#else
#pragma unroll
    for (int four = 0; four < VEC / 4; ++four) {
      unsigned word[2][4];
      transposed_words(word, of.b, first, four);
#pragma unroll
      for (int c = 0; c < 4; ++c) multiply_column(sum, left, four * 4 + c, word[0][c], word[1][c], lane);
    }
#endif
  }
}

// Main loop over the steps of a warp.
template <bool RESIDENT_HERE>
__device__ __forceinline__ void multiply(int (&sum)[FRAGS_M][VEC][4], const Lane& at, int lane) {
  constexpr int BUFFERS = AHEAD + 1;
  Step buffers[BUFFERS];
#pragma unroll
  for (int step = 0; step < AHEAD; ++step) load_step<RESIDENT_HERE>(buffers[step], at, step, step < STEPS_EACH);
#pragma unroll 1
  for (int begin = 0; begin < STEPS_EACH; begin += BUFFERS) {
#pragma unroll
    for (int i = 0; i < BUFFERS; ++i) {
      if (begin + i >= STEPS_EACH) break;
      const int next = begin + i + AHEAD;
      load_step<RESIDENT_HERE>(buffers[(i + AHEAD) % BUFFERS], at, next, next < STEPS_EACH);
      multiply_step(sum, buffers[i], lane);
    }
  }
}

// Offset of four neighbouring columns of a row of sums, swizzled so that lanes which store together have no bank
// conflicts.
__device__ __forceinline__ int sum_offset(int row, int quad) {
  return row * PITCH + (quad ^ (quad >> 3)) * 4;
}

// Stores the sums of a warp. A lane has two neighbouring columns of each of VEC mma: 2 * VEC neighbours of C.
__device__ __forceinline__ void store_sums(int* part, const int (&sum)[FRAGS_M][VEC][4], int lane) {
#pragma unroll
  for (int f = 0; f < FRAGS_M; ++f)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < VEC / 2; ++i) {
        const int row = f * 16 + half * 8 + lane / 4, from = i % (VEC / 4) * 4, which = half * 2 + i / (VEC / 4);
        *reinterpret_cast<int4*>(part + sum_offset(row, lane % 4 * (VEC / 2) + i)) = make_int4(
            sum[f][from][which], sum[f][from + 1][which], sum[f][from + 2][which], sum[f][from + 3][which]);
      }
}

__device__ __forceinline__ void add(int4& sum, const int4& part) {
  sum.x += part.x, sum.y += part.y, sum.z += part.z, sum.w += part.w;
}

__device__ __forceinline__ int4 read_part(const int* own, int rank) {
#if CLUSTER
  const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(own));
  int4 part;
  asm volatile(
      "{ .reg .u32 remote;\n"
      "mapa.shared::cluster.u32 remote, %4, %5;\n"
      "ld.shared::cluster.v4.s32 {%0, %1, %2, %3}, [remote]; }"
      : "=r"(part.x), "=r"(part.y), "=r"(part.z), "=r"(part.w)
      : "r"(from), "r"(rank)
      : "memory");
  return part;
#else
  return *reinterpret_cast<const int4*>(own);
#endif
}

// Returns the row of C of a row of a tile's fragments.
__device__ __forceinline__ int row_of_tile(int row) {
  return TRANSPOSE_A ? row % 8 * (2 * FRAGS_M) + row / 8 : row;
}

__device__ __forceinline__ void write_four(int* __restrict__ out, int m, int n, const int4& sums) {
  if ((!WHOLE_M && m >= M) || n >= N) return;
  int* const to = out + static_cast<size_t>(m) * N + n;
  if (N % 4 == 0) {
    *reinterpret_cast<int4*>(to) = sums;
  } else {
    to[0] = sums.x;
    if (n + 1 < N) to[1] = sums.y;
    if (n + 2 < N) to[2] = sums.z;
    if (n + 3 < N) to[3] = sums.w;
  }
}

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS, RESIDENT) gemm_skinny_int8(
    const signed char* __restrict__ a, const signed char* __restrict__ b, int* __restrict__ out) {
  extern __shared__ int4 shared_memory[];
  int* const parts = reinterpret_cast<int*>(shared_memory);
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int strip = warp % STRIPS, range = warp / STRIPS;
  const int m0 = blockIdx.y * ROWS, n0 = blockIdx.x * (STRIPS * STRIP);
  Lane at;
  at.m = m0 + lane / 4 * (TRANSPOSE_A ? 2 * FRAGS_M : 1), at.n = n0 + strip * STRIP + lane / 4 * VEC;
  at.k = (static_cast<int>(blockIdx.z) * RANGES + range) * (STEPS_EACH * STEP) + lane % 4 * LENGTH;
  at.a = a + (TRANSPOSE_A ? static_cast<size_t>(at.k) * M + at.m : static_cast<size_t>(at.m) * K + at.k);
  at.b = b + (TRANSPOSE_B ? static_cast<size_t>(at.n) * K + at.k : static_cast<size_t>(at.k) * N + at.n);
  at.rest_a = last_integers<A_SIZE>(a), at.rest_b = last_integers<B_SIZE>(b);

  int sum[FRAGS_M][VEC][4];
#pragma unroll
  for (int f = 0; f < FRAGS_M; ++f)
#pragma unroll
    for (int j = 0; j < VEC; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[f][j][r] = 0;
  if (is_resident((blockIdx.x * gridDim.z + blockIdx.z) * (STRIPS * RANGES) + warp))
    multiply<true>(sum, at, lane);
  else
    multiply<false>(sum, at, lane);

  store_sums(parts + warp * PART, sum, lane);
  __syncthreads();
  // The sums of the block replace the parts of the first range.
  constexpr int BLOCK_QUADS = STRIPS * ROWS * QUADS;
#if SPLIT > 1 && !CLUSTER
  launch_dependent_grids();
  out += static_cast<size_t>(blockIdx.z) * M * N;
#endif
  for (int i = tid; i < BLOCK_QUADS; i += THREADS) {
    int* const own = parts + i / (ROWS * QUADS) * PART + sum_offset(i / QUADS % ROWS, i % QUADS);
    int4 total = *reinterpret_cast<const int4*>(own);
#pragma unroll
    for (int r = 1; r < RANGES; ++r) add(total, *reinterpret_cast<const int4*>(own + r * STRIPS * PART));
#if CLUSTER
    *reinterpret_cast<int4*>(own) = total;
  }
  cluster_sync();
  for (int i = tid * SHARERS + static_cast<int>(blockIdx.z); i < BLOCK_QUADS; i += THREADS * SHARERS) {
    const int* const own = parts + i / (ROWS * QUADS) * PART + sum_offset(i / QUADS % ROWS, i % QUADS);
    int4 part[SHARERS], total = make_int4(0, 0, 0, 0);
#pragma unroll
    for (int rank = 0; rank < SHARERS; ++rank) part[rank] = read_part(own, rank);
#pragma unroll
    for (int rank = 0; rank < SHARERS; ++rank) add(total, part[rank]);
#endif
    write_four(out, m0 + row_of_tile(i / QUADS % ROWS), n0 + i / (ROWS * QUADS) * STRIP + i % QUADS * 4, total);
  }
#if CLUSTER
  // No block may exit while another reads its shared memory.
  cluster_sync();
#endif
}

#if SPLIT > 1 && !CLUSTER
// Adds the partial sums of all ranges of K.
extern "C" __global__ void __launch_bounds__(REDUCE_THREADS) gemm_skinny_int8_reduce(
    const int* __restrict__ partial, int* __restrict__ out) {
  constexpr size_t RESULTS = static_cast<size_t>(M) * N;
  const size_t i = static_cast<size_t>(blockIdx.x) * REDUCE_THREADS + threadIdx.x;
  wait_on_dependent_grids();
  if (i >= RESULTS) return;
  int part[SPLIT], total = 0;
#pragma unroll
  for (int range = 0; range < SPLIT; ++range) part[range] = partial[range * RESULTS + i];
#pragma unroll
  for (int range = 0; range < SPLIT; ++range) total += part[range];
  out[i] = total;
}
#endif
