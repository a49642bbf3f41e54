// Shared by the kernels of attention: the rows and keys of a block, and online softmax of scores in registers. Scores
// and accumulators have the layout of mma.m16n8k16 accumulators: words 0 and 1 are of row lane / 4 of the warp's 16,
// at columns lane % 4 * 2 and the next, words 2 and 3 of row lane / 4 + 8.
//
// Q and the result are [BATCH, KV_HEADS * GROUP, QUERIES, D], K and V [BATCH, KV_HEADS, KEYS, D]; with ROWS_FIRST
// heads and rows are exchanged, and with PACKED one array has the heads of Q, K and V one after another.
// Queries of the GROUP heads that share keys are rows of one matrix: row r is query r / GROUP of head r % GROUP. A block
// owns WARPS * 16 rows and one of SPLIT ranges of the keys, and loops over tiles of TILE_K keys; scores stay in
// registers, and accumulators are rescaled by online softmax. With CAUSAL, query i attends to keys up to
// i + KEYS - QUERIES. With BIASED, scores times SCALE have an element of the bias added.
constexpr int TILE_Q = WARPS * 16, ROWS = QUERIES * GROUP;
constexpr int TILES = (ROWS + TILE_Q - 1) / TILE_Q, MATRICES = BATCH * KV_HEADS;
constexpr int CHUNKS = (KEYS + TILE_K - 1) / TILE_K, CHUNKS_A_SPLIT = (CHUNKS + SPLIT - 1) / SPLIT;
constexpr int DEEP = (D + PADDED_TO - 1) / PADDED_TO * PADDED_TO;  // columns of tiles, zero-padded beyond D
// Partial result of a row: accumulators, largest score, sum of exponentials; rows begin with whole sectors of 32 bytes.
constexpr int PART = (D + 2 + 7) / 8 * 8;

typedef unsigned short half_bits;
#define SMALLEST __int_as_float(0xff800000)

__host__ __device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }

// Row pitches of Q, of K and V, and of the result; offsets of the heads of K and of V.
constexpr int HEADS = KV_HEADS * GROUP, PACKED_ROW = (HEADS + 2 * KV_HEADS) * D;
constexpr int Q_ROW = PACKED ? PACKED_ROW : ROWS_FIRST ? HEADS * D : D;
constexpr int K_ROW = PACKED ? PACKED_ROW : ROWS_FIRST ? KV_HEADS * D : D;
constexpr int RESULT_ROW = ROWS_FIRST ? HEADS * D : D;
constexpr int K_FIRST = PACKED ? HEADS * D : 0, V_FIRST = PACKED ? K_FIRST + KV_HEADS * D : 0;

// Offset of a head in an array of OF_HEADS heads.
template <int OF_HEADS, int OF_ROWS, int ROW>
__device__ __forceinline__ size_t head_offset(int batch, int head) {
  if (!ROWS_FIRST) return (static_cast<size_t>(batch) * OF_HEADS + head) * OF_ROWS * D;
  return static_cast<size_t>(batch) * OF_ROWS * ROW + head * D;
}

// Offset of a row of Q, or of the result.
template <int ROW>
__device__ __forceinline__ size_t row_offset(int matrix, int row) {
  const int batch = matrix / KV_HEADS, head = matrix % KV_HEADS * GROUP + row % GROUP;
  return head_offset<HEADS, QUERIES, ROW>(batch, head) + static_cast<size_t>(row / GROUP) * ROW;
}

__device__ __forceinline__ size_t query_offset(int matrix, int row) { return row_offset<Q_ROW>(matrix, row); }
__device__ __forceinline__ size_t result_offset(int matrix, int row) { return row_offset<RESULT_ROW>(matrix, row); }

// Offset of a matrix of K, or of V without V_FIRST.
__device__ __forceinline__ size_t keys_offset(int matrix) {
  return head_offset<KV_HEADS, KEYS, K_ROW>(matrix / KV_HEADS, matrix % KV_HEADS);
}

// Maximum and sum over the four threads that share rows, by warp shuffles.
__device__ __forceinline__ float largest_of_four(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float sum_of_four(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

struct Sums {
  float out[DEEP / 8][4], most[2], total[2];
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int half = 0; half < 2; ++half) most[half] = SMALLEST, total[half] = 0.0f;
#pragma unroll
    for (int d = 0; d < DEEP / 8; ++d)
#pragma unroll
      for (int r = 0; r < 4; ++r) out[d][r] = 0.0f;
  }
};

// A work tile: TILE_Q rows of a matrix from `row0` on, and tiles `begin` to `end` of the keys.
struct Work {
  int matrix, row0, begin, end;
};

// Causal tiles of SECTION matrices, whose keys and values the L2 cache holds, are numbered by their length.
constexpr int SECTIONS = (MATRICES + SECTION - 1) / SECTION;

// The work tile of a number. The last causal rows attend to most keys: the longest tiles come first.
__device__ __forceinline__ Work work_of(int block) {
  const int section = block / (SECTION * TILES), inside = block % (SECTION * TILES);
  const int matrices = smaller(SECTION, MATRICES - section * SECTION);
  const int tile = CAUSAL ? TILES - 1 - inside / matrices : block % TILES;
  const int matrix = CAUSAL ? section * SECTION + inside % matrices : block / TILES;
  const int row0 = tile * TILE_Q, last = smaller(row0 + TILE_Q, ROWS) - 1;
  const int visible = CAUSAL ? smaller(last / GROUP + KEYS - QUERIES + 1, KEYS) : KEYS;
  const int chunks = visible > 0 ? (visible + TILE_K - 1) / TILE_K : 0, begin = blockIdx.y * CHUNKS_A_SPLIT;
  return {matrix, row0, begin, smaller(begin + CHUNKS_A_SPLIT, chunks)};
}

__device__ __forceinline__ Work work_of_block() { return work_of(blockIdx.x); }

// The last key that a row attends to.
__device__ __forceinline__ int last_visible(int row) { return CAUSAL ? row / GROUP + KEYS - QUERIES : KEYS - 1; }

// Sets scores of keys that are out of bounds or masked to minus infinity.
__device__ __forceinline__ void mask_scores(
    float (&score)[TILE_K / 8][4], int key0, int row, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int last = last_visible(row + half * 8), most = last < KEYS ? last : KEYS - 1;
#pragma unroll
    for (int j = 0; j < TILE_K / 8; ++j)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        if (key0 + j * 8 + lane % 4 * 2 + r > most) score[j][half * 2 + r] = SMALLEST;
  }
}

// Masks a warp's 16 rows from `first` on if the tile crosses the diagonal or the end.
__device__ __forceinline__ void mask_tile(
    float (&score)[TILE_K / 8][4], int key0, int first, int lane) {
  const bool beyond = KEYS % TILE_K > 0 && key0 + TILE_K > KEYS;
  if (beyond || (CAUSAL && key0 + TILE_K - 1 > last_visible(first)))
    mask_scores(score, key0, first + lane / 4, lane);
}

#ifdef BIASED
#define BIAS_PARAMETER const BIAS_ELEMENT *__restrict__ bias,

// The elements of the bias of the scores that a thread has of a tile of keys. They are loaded before the product whose
// scores they are added to, which hides their latency.
struct Bias {
  static constexpr bool WIDE = sizeof(BIAS_ELEMENT) == 4;
  unsigned word[TILE_K / 8][WIDE ? 4 : 2];

  // For the rows `row` and `row + 8` of a matrix.
  __device__ __forceinline__ void load(const BIAS_ELEMENT* __restrict__ bias, int matrix, int key0, int row, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int own = smaller(row + half * 8, ROWS - 1), head = matrix % KV_HEADS * GROUP + own % GROUP;
      const BIAS_ELEMENT* const from = bias + static_cast<size_t>(matrix / KV_HEADS) * BIAS_BATCH +
                                       static_cast<size_t>(head) * BIAS_HEAD + static_cast<size_t>(own / GROUP) * BIAS_ROW;
#pragma unroll
      for (int j = 0; j < TILE_K / 8; ++j) {
        const int key = key0 + j * 8 + lane % 4 * 2;
        if (WIDE) {
#pragma unroll
          for (int r = 0; r < 2; ++r)
            word[j][half * (WIDE ? 2 : 1) + r * WIDE] = key + r < KEYS ? bits(__ldg(from + key + r)) : 0u;
        } else if (KEYS % 2 == 0) {
          // Pairs are aligned, and inside or outside as a whole.
          word[j][half] = key < KEYS ? __ldg(reinterpret_cast<const unsigned*>(from + key)) : 0u;
        } else {
          const unsigned low = key < KEYS ? bits(__ldg(from + key)) : 0u;
          word[j][half] = low | (key + 1 < KEYS ? bits(__ldg(from + key + 1)) << 16 : 0u);
        }
      }
    }
  }

  __device__ __forceinline__ void add(float (&score)[TILE_K / 8][4]) const {
#pragma unroll
    for (int j = 0; j < TILE_K / 8; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float more = WIDE ? __uint_as_float(word[j][r % (WIDE ? 4 : 2)]) : widened(word[j][r / 2] >> r % 2 * 16);
        score[j][r] = fmaf(score[j][r], SCALE, more);
      }
  }

 private:
  static __device__ __forceinline__ unsigned bits(float number) { return __float_as_uint(number); }
  static __device__ __forceinline__ unsigned bits(unsigned short number) { return number; }

  // The number in the lower half of a word.
  static __device__ __forceinline__ float widened(unsigned number) {
#ifdef AUTOTUNE_EMULATE
    return float_of(number & 0xffff);
#elif BFLOAT16
    return __uint_as_float(number << 16);
#else
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(static_cast<unsigned short>(number)));
    return wide;
#endif
  }
};

// Scores of a row of which a mask hides all keys are so low that their products with a factor differ by more than
// exponents may: the largest is subtracted first, which is exact.
__device__ __forceinline__ float base_of(float largest) { return largest; }
__device__ __forceinline__ float exponent_of(float score, float base) { return (score - base) * SCALE_LOG2; }

// The largest score of a partial result, times the factor: a number if it is one.
__device__ __forceinline__ float scaled_most(float most) {
  return (most == SMALLEST ? SMALLEST : fmaxf(most, -2e38f)) * SCALE_LOG2;
}
#else
__device__ __forceinline__ float base_of(float largest) { return largest * SCALE_LOG2; }
__device__ __forceinline__ float exponent_of(float score, float base) { return fmaf(score, SCALE_LOG2, -base); }
__device__ __forceinline__ float scaled_most(float most) { return most * SCALE_LOG2; }

#define BIAS_PARAMETER
typedef float BIAS_ELEMENT;
constexpr const BIAS_ELEMENT* bias = nullptr;

// There is none.
struct Bias {
  __device__ __forceinline__ void load(const BIAS_ELEMENT*, int, int, int, int) {}
  __device__ __forceinline__ void add(float (&)[TILE_K / 8][4]) const {}
};
#endif

// Online softmax: replaces scores by exponentials; accumulators must be rescaled by `factor`.
__device__ __forceinline__ void exponentials(
    float (&score)[TILE_K / 8][4], float (&most)[2], float (&total)[2], float (&factor)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = most[half];
#pragma unroll
    for (int j = 0; j < TILE_K / 8; ++j)
      largest = fmaxf(largest, fmaxf(score[j][half * 2], score[j][half * 2 + 1]));
    largest = largest_of_four(largest);
    // A row without a visible key so far has nothing to rescale.
    const float base = largest == SMALLEST ? 0.0f : base_of(largest);
    factor[half] = exp2_approx(exponent_of(most[half], base));
    most[half] = largest;
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < TILE_K / 8; ++j)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float power = exp2_approx(exponent_of(score[j][half * 2 + r], base));
        score[j][half * 2 + r] = power;
        sum += power;
      }
    total[half] = total[half] * factor[half] + sum;
  }
}

__device__ __forceinline__ void rescale(float (&out)[DEEP / 8][4], const float (&factor)[2]) {
#pragma unroll
  for (int d = 0; d < DEEP / 8; ++d)
#pragma unroll
    for (int r = 0; r < 4; ++r) out[d][r] *= factor[r / 2];
}

// Converts the exponentials of 16 keys to a left operand fragment.
__device__ __forceinline__ void pack_left(unsigned (&left)[4], const float (&score)[TILE_K / 8][4], int k) {
#pragma unroll
  for (int r = 0; r < 4; ++r)
    left[r] = pack_pair(score[2 * k + r / 2][r % 2 * 2], score[2 * k + r / 2][r % 2 * 2 + 1]);
}

// Calls body(d, column) for the pairs of columns that a thread has of a row, those of the d-th eight.
template <class Body>
__device__ __forceinline__ void each_pair(int lane, Body body) {
#pragma unroll
  for (int d = 0; d < (D + 7) / 8; ++d) {
    const int column = d * 8 + lane % 4 * 2;
    if (D % 8 == 0 || column < D) body(d, column);
  }
}

// Writes a warp's rows: the result, or with SPLIT partial results for `attention_join`.
__device__ __forceinline__ void write_rows(
    RESULT* __restrict__ to, const Sums& sums, int matrix, int row0, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + lane / 4 + half * 8;
    const float sum = sum_of_four(sums.total[half]);
    if (row >= ROWS) continue;
#if SPLIT > 1
    float* const part = to + ((static_cast<size_t>(blockIdx.y) * MATRICES + matrix) * ROWS + row) * PART;
    each_pair(lane, [&](int d, int column) { store_vector<2>(part + column, sums.out[d] + half * 2); });
    if (lane % 4 == 0) {
      part[D] = scaled_most(sums.most[half]);
      part[D + 1] = sum;
    }
#else
    const float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
    half_bits* const begin = to + result_offset(matrix, row);
    each_pair(lane, [&](int d, int column) {
      *reinterpret_cast<unsigned*>(begin + column) =
          pack_pair(sums.out[d][half * 2] * factor, sums.out[d][half * 2 + 1] * factor);
    });
#endif
  }
}

#if SPLIT > 1
// Combines the partial results of a split; each thread has two neighbours of a row.
extern "C" __global__ void __launch_bounds__(128) attention_join(
    const float* __restrict__ parts, half_bits* __restrict__ to) {
  wait_on_dependent_grids();
  const size_t i = static_cast<size_t>(blockIdx.x) * 128 + threadIdx.x;
  const size_t row = i / (D / 2);
  const int d = static_cast<int>(i % (D / 2)) * 2;
  if (row >= static_cast<size_t>(MATRICES) * ROWS) return;
  constexpr size_t SPLIT_STRIDE = static_cast<size_t>(MATRICES) * ROWS * PART;
  const float* const part = parts + row * PART;
  float largest = SMALLEST, total = 0.0f, low = 0.0f, high = 0.0f;
#pragma unroll
  for (int s = 0; s < SPLIT; ++s) largest = fmaxf(largest, part[s * SPLIT_STRIDE + D]);
  const float base = largest == SMALLEST ? 0.0f : largest;
#pragma unroll
  for (int s = 0; s < SPLIT; ++s) {
    const float factor = exp2f(part[s * SPLIT_STRIDE + D] - base);
    total += factor * part[s * SPLIT_STRIDE + D + 1];
    low += factor * part[s * SPLIT_STRIDE + d];
    high += factor * part[s * SPLIT_STRIDE + d + 1];
  }
  const float factor = total > 0.0f ? 1.0f / total : 0.0f;
  half_bits* const begin = to + result_offset(static_cast<int>(row / ROWS), static_cast<int>(row % ROWS));
  *reinterpret_cast<unsigned*>(begin + d) = pack_pair(low * factor, high * factor);
}
#endif
