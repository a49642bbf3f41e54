// Skinny GEMM: C[M, N] = A[M, K] B of few rows of 8-bit integers, B stored as [K, N] or with TRANSPOSE_B as [N, K],
// bound by loading B. Warps load it from global memory to registers, each byte once, AHEAD steps in advance.
//
// A warp owns a strip of 8 * VEC columns of C and a range of K. K is permuted, alike for both operands of an mma: of a
// step, quad lane q = lane % 4 has 16 * q to 16 * q + 15 along K, and row g = lane / 4 has VEC neighbouring columns of
// the strip, one in each of VEC mma. So lanes load whole vectors of either operand; of a B stored as [K, N], blocks of
// 4 x 4 integers are transposed in registers.
//
// Split-K: RANGES warps of a block, and SPLIT blocks of a cluster, have different ranges of K of the same columns.
// Their partial sums are reduced through (distributed) shared memory; integers are exact in any order.
constexpr int LENGTH = 16, STEP = 4 * LENGTH, STRIP = 8 * VEC, ROWS = FRAGS_M * 16, QUADS = STRIP / 4;
constexpr int STEPS = (K + STEP - 1) / STEP, STEPS_EACH = (STEPS + RANGES * SPLIT - 1) / (RANGES * SPLIT);
// Padded, so that rows of sums which lanes store together start in different banks.
constexpr int PITCH = 9 * VEC, PART = ROWS * PITCH;
constexpr bool WHOLE_M = M % ROWS == 0, WHOLE_N = N % (STRIP * STRIPS) == 0;
constexpr bool WHOLE_K = K % (STEP * RANGES * SPLIT) == 0;

// Operands of a lane in a step: words of four integers along K of rows g and g + 8 of each fragment of A, and of its
// columns of B, or of a B stored as [K, N] words of four columns of each row.
struct Step {
  unsigned a[FRAGS_M][2][LENGTH / 4];
#if TRANSPOSE_B
  unsigned b[VEC][LENGTH / 4];
#else
  unsigned b[LENGTH][VEC / 4];
#endif
};

struct Lane {
  const signed char *a, *b;
  int m, n, k;
};

// Loads WORDS words, zeros if they are out of bounds.
template <int WORDS>
__device__ __forceinline__ void load_words(unsigned (&to)[WORDS], const signed char* from, bool exists) {
  if (WORDS == 4) {
    const uint4 four = exists ? __ldg(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
    to[0] = four.x, to[WORDS > 1 ? 1 : 0] = four.y, to[WORDS > 2 ? 2 : 0] = four.z, to[WORDS > 3 ? 3 : 0] = four.w;
  } else if (WORDS == 2) {
    const uint2 two = exists ? __ldg(reinterpret_cast<const uint2*>(from)) : make_uint2(0, 0);
    to[0] = two.x, to[WORDS > 1 ? 1 : 0] = two.y;
  } else {
    to[0] = exists ? __ldg(reinterpret_cast<const unsigned*>(from)) : 0;
  }
}

__device__ __forceinline__ void load_step(Step& to, const Lane& at, int step, bool exists) {
  const bool here = exists && (WHOLE_K || at.k + step * STEP < K);
#if TRANSPOSE_B
#pragma unroll
  for (int j = 0; j < VEC; ++j)
    load_words(to.b[j], at.b + static_cast<size_t>(j) * K + step * STEP, here && (WHOLE_N || at.n + j < N));
#else
#pragma unroll
  for (int i = 0; i < LENGTH; ++i)
    load_words(to.b[i], at.b + static_cast<size_t>(step * STEP + i) * N, here && (WHOLE_N || at.n < N));
#endif
#pragma unroll
  for (int f = 0; f < FRAGS_M; ++f)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = f * 16 + half * 8;
      load_words(
          to.a[f][half], at.a + static_cast<size_t>(row) * K + step * STEP, here && (WHOLE_M || at.m + row < M));
    }
}

// Accumulates the mma of column `j` and 32 along K, words `first` and the next of each lane.
__device__ __forceinline__ void multiply_column(
    int (&sum)[FRAGS_M][VEC][4], const Step& of, int j, int first, unsigned right0, unsigned right1, int lane) {
#pragma unroll
  for (int f = 0; f < FRAGS_M; ++f) {
    const unsigned left[4] = {
        of.a[f][0][first], of.a[f][1][first], of.a[f][0][first + 1], of.a[f][1][first + 1]};
    multiply_add(sum[f][j], left, right0, right1, lane);
  }
}

__device__ __forceinline__ void multiply_step(int (&sum)[FRAGS_M][VEC][4], const Step& of, int lane) {
#pragma unroll
  for (int first = 0; first < LENGTH / 4; first += 2) {
#if TRANSPOSE_B
#pragma unroll
    for (int j = 0; j < VEC; ++j) multiply_column(sum, of, j, first, of.b[j][first], of.b[j][first + 1], lane);
#else
#pragma unroll
    for (int four = 0; four < VEC / 4; ++four) {
      unsigned word[2][4];
#pragma unroll
      for (int i = 0; i < 8; ++i) word[i / 4][i % 4] = of.b[first * 4 + i][four];
      transpose_int8(word[0]);
      transpose_int8(word[1]);
#pragma unroll
      for (int c = 0; c < 4; ++c) multiply_column(sum, of, four * 4 + c, first, word[0][c], word[1][c], lane);
    }
#endif
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
#if SPLIT > 1
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
  at.m = m0 + lane / 4, at.n = n0 + strip * STRIP + lane / 4 * VEC;
  at.k = (static_cast<int>(blockIdx.z) * RANGES + range) * (STEPS_EACH * STEP) + lane % 4 * LENGTH;
  at.a = a + static_cast<size_t>(at.m) * K + at.k;
  at.b = b + (TRANSPOSE_B ? static_cast<size_t>(at.n) * K + at.k : static_cast<size_t>(at.k) * N + at.n);

  int sum[FRAGS_M][VEC][4];
#pragma unroll
  for (int f = 0; f < FRAGS_M; ++f)
#pragma unroll
    for (int j = 0; j < VEC; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[f][j][r] = 0;
  constexpr int BUFFERS = AHEAD + 1;
  Step buffers[BUFFERS];
#pragma unroll
  for (int step = 0; step < AHEAD; ++step) load_step(buffers[step], at, step, step < STEPS_EACH);
#pragma unroll 1
  for (int begin = 0; begin < STEPS_EACH; begin += BUFFERS) {
#pragma unroll
    for (int i = 0; i < BUFFERS; ++i) {
      if (begin + i >= STEPS_EACH) break;
      load_step(buffers[(i + AHEAD) % BUFFERS], at, begin + i + AHEAD, begin + i + AHEAD < STEPS_EACH);
      multiply_step(sum, buffers[i], lane);
    }
  }

  store_sums(parts + warp * PART, sum, lane);
  __syncthreads();
  // The sums of the block replace the parts of the first range.
  constexpr int BLOCK_QUADS = STRIPS * ROWS * QUADS;
  for (int i = tid; i < BLOCK_QUADS; i += THREADS) {
    int* const own = parts + i / (ROWS * QUADS) * PART + sum_offset(i / QUADS % ROWS, i % QUADS);
    int4 total = *reinterpret_cast<const int4*>(own);
#pragma unroll
    for (int r = 1; r < RANGES; ++r) add(total, *reinterpret_cast<const int4*>(own + r * STRIPS * PART));
#if SPLIT > 1
    *reinterpret_cast<int4*>(own) = total;
  }
  cluster_sync();
  for (int i = tid * SPLIT + static_cast<int>(blockIdx.z); i < BLOCK_QUADS; i += THREADS * SPLIT) {
    const int* const own = parts + i / (ROWS * QUADS) * PART + sum_offset(i / QUADS % ROWS, i % QUADS);
    int4 part[SPLIT], total = make_int4(0, 0, 0, 0);
#pragma unroll
    for (int rank = 0; rank < SPLIT; ++rank) part[rank] = read_part(own, rank);
#pragma unroll
    for (int rank = 0; rank < SPLIT; ++rank) add(total, part[rank]);
#endif
    write_four(out, m0 + i / QUADS % ROWS, n0 + i / (ROWS * QUADS) * STRIP + i % QUADS * 4, total);
  }
#if SPLIT > 1
  // No block may exit while another reads its shared memory.
  cluster_sync();
#endif
}
