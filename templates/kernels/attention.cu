// softmax(Q K^T * scale) V on tensor cores: 16-bit floats, sums and exponentials in float32.
//
// Q and the result are [BATCH, KV_HEADS * GROUP, QUERIES, D], K and V [BATCH, KV_HEADS, KEYS, D]. Queries of the
// GROUP heads that share keys are rows of one matrix: row r is query r / GROUP of head r % GROUP. A block owns
// WARPS * 16 rows and one of SPLIT ranges of the keys, a warp 16 rows. Keys and values pass through a ring of
// STAGES slots, TILE_K at a time; scores stay in registers, and sums are rescaled where a larger score comes.
// With CAUSAL, query i sees keys up to i + KEYS - QUERIES.
constexpr int PITCH = D + 8, TILE_Q = WARPS * 16, ROWS = QUERIES * GROUP;
constexpr int TILES = (ROWS + TILE_Q - 1) / TILE_Q, MATRICES = BATCH * KV_HEADS;
constexpr int CHUNKS = (KEYS + TILE_K - 1) / TILE_K, CHUNKS_A_SPLIT = (CHUNKS + SPLIT - 1) / SPLIT;
constexpr int SLOT = 2 * TILE_K * PITCH;
constexpr int PART = D + 2;  // sums of a row, its largest score, and the sum of its exponentials

typedef unsigned short half_bits;
#define SMALLEST __int_as_float(0xff800000)

__device__ __forceinline__ int smaller(int a, int b) { return a < b ? a : b; }

// Where the elements of a row of Q, or of the result, begin.
__device__ __forceinline__ size_t row_begin(int matrix, int row) {
  return ((static_cast<size_t>(matrix) * GROUP + row % GROUP) * QUERIES + row / GROUP) * D;
}

__device__ __forceinline__ void copy_eight(half_bits* dst, const half_bits* src, bool valid) {
  copy_async<4>(reinterpret_cast<float*>(dst), reinterpret_cast<const float*>(src), valid);
}

__device__ __forceinline__ void stage_keys(
    half_bits* dst, const half_bits* __restrict__ from, int key0, int tid) {
  each_vector<TILE_K, D / 8>(tid, [&](int row, int vector) {
    const bool valid = KEYS % TILE_K == 0 || key0 + row < KEYS;
    copy_eight(dst + row * PITCH + vector * 8, from + static_cast<size_t>(key0 + row) * D + vector * 8, valid);
  });
}

// The largest, or the sum, of what the four threads that share rows hold.
__device__ __forceinline__ float largest_of_four(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float sum_of_four(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

__device__ __forceinline__ void compute_scores(
    float (&score)[TILE_K / 8][4], const unsigned (&query)[D / 16][4], const half_bits* keys, int lane) {
#pragma unroll
  for (int j = 0; j < TILE_K / 8; ++j)
#pragma unroll
    for (int r = 0; r < 4; ++r) score[j][r] = 0.0f;
#pragma unroll
  for (int d = 0; d < D / 16; ++d)
#pragma unroll
    for (int j = 0; j < TILE_K / 16; ++j) {
      unsigned right[4];
      load_right<true>(right, keys + j * 16 * PITCH + d * 16, PITCH, lane);
      multiply_add(score[2 * j], query[d], right[0], right[1], lane);
      multiply_add(score[2 * j + 1], query[d], right[2], right[3], lane);
    }
}

// The last key that a row sees.
__device__ __forceinline__ int last_seen(int row) { return CAUSAL ? row / GROUP + KEYS - QUERIES : KEYS - 1; }

// Makes scores of keys that do not exist, or are not seen, the smallest there is.
__device__ __forceinline__ void mask_scores(
    float (&score)[TILE_K / 8][4], int key0, int row, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int last = last_seen(row + half * 8), most = last < KEYS ? last : KEYS - 1;
#pragma unroll
    for (int j = 0; j < TILE_K / 8; ++j)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        if (key0 + j * 8 + lane % 4 * 2 + r > most) score[j][half * 2 + r] = SMALLEST;
  }
}

// Two to the power of x; what is less than floats in full precision is 0.
__device__ __forceinline__ float power_of_two(float x) {
#ifdef AUTOTUNE_EMULATE
  return exp2f(x);
#else
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#endif
}

// Turns scores into exponentials, and rescales what was summed up before.
__device__ __forceinline__ void rescale(
    float (&score)[TILE_K / 8][4], float (&out)[D / 8][4], float (&most)[2], float (&total)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = most[half];
#pragma unroll
    for (int j = 0; j < TILE_K / 8; ++j)
      largest = fmaxf(largest, fmaxf(score[j][half * 2], score[j][half * 2 + 1]));
    largest = largest_of_four(largest);
    // A row that has seen no key yet has nothing to rescale.
    const float base = largest == SMALLEST ? 0.0f : largest * SCALE_LOG2;
    const float factor = power_of_two(fmaf(most[half], SCALE_LOG2, -base));
    most[half] = largest;
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < TILE_K / 8; ++j)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float power = power_of_two(fmaf(score[j][half * 2 + r], SCALE_LOG2, -base));
        score[j][half * 2 + r] = power;
        sum += power;
      }
    total[half] = total[half] * factor + sum;
#pragma unroll
    for (int d = 0; d < D / 8; ++d) {
      out[d][half * 2] *= factor;
      out[d][half * 2 + 1] *= factor;
    }
  }
}

__device__ __forceinline__ void add_values(
    float (&out)[D / 8][4], const float (&score)[TILE_K / 8][4], const half_bits* values, int lane) {
#pragma unroll
  for (int k = 0; k < TILE_K / 16; ++k) {
    const unsigned left[4] = {
        pack_pair(score[2 * k][0], score[2 * k][1]), pack_pair(score[2 * k][2], score[2 * k][3]),
        pack_pair(score[2 * k + 1][0], score[2 * k + 1][1]),
        pack_pair(score[2 * k + 1][2], score[2 * k + 1][3])};
#pragma unroll
    for (int d = 0; d < D / 16; ++d) {
      unsigned right[4];
      load_right<false>(right, values + k * 16 * PITCH + d * 16, PITCH, lane);
      multiply_add(out[2 * d], left, right[0], right[1], lane);
      multiply_add(out[2 * d + 1], left, right[2], right[3], lane);
    }
  }
}

// Writes a warp's rows: the result, or with SPLIT what `attention_join` makes it of.
__device__ __forceinline__ void write_rows(
    RESULT* __restrict__ to, float (&out)[D / 8][4], const float (&most)[2], const float (&total)[2],
    int matrix, int row0, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + lane / 4 + half * 8;
    const float sum = sum_of_four(total[half]);
    if (row >= ROWS) continue;
#if SPLIT > 1
    float* const part = to + ((static_cast<size_t>(blockIdx.y) * MATRICES + matrix) * ROWS + row) * PART;
#pragma unroll
    for (int d = 0; d < D / 8; ++d)
      store_vector<2>(part + d * 8 + lane % 4 * 2, out[d] + half * 2);
    if (lane % 4 == 0) {
      part[D] = most[half] * SCALE_LOG2;
      part[D + 1] = sum;
    }
#else
    const float factor = sum > 0.0f ? 1.0f / sum : 0.0f;
    half_bits* const begin = to + row_begin(matrix, row);
#pragma unroll
    for (int d = 0; d < D / 8; ++d)
      *reinterpret_cast<unsigned*>(begin + d * 8 + lane % 4 * 2) =
          pack_pair(out[d][half * 2] * factor, out[d][half * 2 + 1] * factor);
#endif
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) attention(
    const half_bits* __restrict__ q, const half_bits* __restrict__ k,
    const half_bits* __restrict__ v, RESULT* __restrict__ to) {
  extern __shared__ float4 shared_memory[];
  half_bits* const queries = reinterpret_cast<half_bits*>(shared_memory);
  half_bits* const ring = queries + TILE_Q * PITCH;
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int matrix = blockIdx.x / TILES;
  // Of causal rows the last see most keys: they begin first.
  const int tile = CAUSAL ? TILES - 1 - blockIdx.x % TILES : blockIdx.x % TILES;
  const int row0 = tile * TILE_Q, last = smaller(row0 + TILE_Q, ROWS) - 1;
  const int seen = CAUSAL ? smaller(last / GROUP + KEYS - QUERIES + 1, KEYS) : KEYS;
  const int chunks = seen > 0 ? (seen + TILE_K - 1) / TILE_K : 0;
  const int begin = blockIdx.y * CHUNKS_A_SPLIT, end = smaller(begin + CHUNKS_A_SPLIT, chunks);
  k += static_cast<size_t>(matrix) * KEYS * D;
  v += static_cast<size_t>(matrix) * KEYS * D;

  auto stage = [&](int chunk, int slot) {
    if (chunk < end) {
      stage_keys(ring + slot * SLOT, k, chunk * TILE_K, tid);
      stage_keys(ring + slot * SLOT + TILE_K * PITCH, v, chunk * TILE_K, tid);
    }
    copy_commit();
  };
  each_vector<TILE_Q, D / 8>(tid, [&](int row, int vector) {
    const bool valid = row0 + row < ROWS;
    copy_eight(queries + row * PITCH + vector * 8, q + row_begin(matrix, row0 + row) + vector * 8, valid);
  });
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) stage(begin + i, i);

  unsigned query[D / 16][4];
  float out[D / 8][4], most[2], total[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) most[half] = SMALLEST, total[half] = 0.0f;
#pragma unroll
  for (int d = 0; d < D / 8; ++d)
#pragma unroll
    for (int r = 0; r < 4; ++r) out[d][r] = 0.0f;

  int slot = 0, free_slot = STAGES - 1;
#pragma unroll 1
  for (int chunk = begin; chunk < end; ++chunk) {
    copy_wait<STAGES - 2>();
    __syncthreads();
    stage(chunk + STAGES - 1, free_slot);
    if (chunk == begin) {
#pragma unroll
      for (int d = 0; d < D / 16; ++d)
        load_left<false>(query[d], queries + warp * 16 * PITCH + d * 16, PITCH, lane);
    }
    const int key0 = chunk * TILE_K, first = row0 + warp * 16;
    if (!CAUSAL || key0 <= last_seen(first + 15)) {
      float score[TILE_K / 8][4];
      const half_bits* const keys = ring + slot * SLOT;
      compute_scores(score, query, keys, lane);
      const bool beyond = KEYS % TILE_K > 0 && key0 + TILE_K > KEYS;
      if (beyond || (CAUSAL && key0 + TILE_K - 1 > last_seen(first)))
        mask_scores(score, key0, first + lane / 4, lane);
      rescale(score, out, most, total);
      add_values(out, score, keys + TILE_K * PITCH, lane);
    }
    free_slot = slot;
    slot = slot + 1 == STAGES ? 0 : slot + 1;
  }
  copy_wait<0>();
  write_rows(to, out, most, total, matrix, row0 + warp * 16, lane);
}

#if SPLIT > 1
// Joins what the blocks of a split found: each thread two neighbours of a row.
extern "C" __global__ void __launch_bounds__(128) attention_join(
    const float* __restrict__ parts, half_bits* __restrict__ to) {
  const size_t i = static_cast<size_t>(blockIdx.x) * 128 + threadIdx.x;
  const size_t row = i / (D / 2);
  const int d = static_cast<int>(i % (D / 2)) * 2;
  if (row >= static_cast<size_t>(MATRICES) * ROWS) return;
  constexpr size_t APART = static_cast<size_t>(MATRICES) * ROWS * PART;
  const float* const part = parts + row * PART;
  float largest = SMALLEST, total = 0.0f, low = 0.0f, high = 0.0f;
#pragma unroll
  for (int s = 0; s < SPLIT; ++s) largest = fmaxf(largest, part[s * APART + D]);
  const float base = largest == SMALLEST ? 0.0f : largest;
#pragma unroll
  for (int s = 0; s < SPLIT; ++s) {
    const float factor = exp2f(part[s * APART + D] - base);
    total += factor * part[s * APART + D + 1];
    low += factor * part[s * APART + d];
    high += factor * part[s * APART + d + 1];
  }
  const float factor = total > 0.0f ? 1.0f / total : 0.0f;
  half_bits* const begin = to + row_begin(static_cast<int>(row / ROWS), static_cast<int>(row % ROWS));
  *reinterpret_cast<unsigned*>(begin + d) = pack_pair(low * factor, high * factor);
}
#endif
