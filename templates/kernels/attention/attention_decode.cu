// softmax(Q K^T * scale) V of few rows of queries and many keys, as in decoding (split-KV), bound by memory bandwidth.
// The KEY_WARPS warps of a block split its tiles of TILE_K keys. Each warp loads them by TMA to a circular buffer of its
// own in shared memory, and partial results are combined at the end. Shared memory is read in vectors of 16 bytes
// without bank conflicts: K and the output columns of a product are permuted, alike for both operands.
//
// TMA boxes have 64 columns, those beyond D are zeros. With g = lane / 4 and t = lane % 4, a thread reads vectors 2 t and 2 t + 1 of the eight of
// key 8 j + g of each box, and vector g of the values of keys 16 s + 2 t, the next, and these two + 8. Word i of the
// accumulators is of column 16 t + i % 8 of a box.
__constant__ __align__(128) TensorMap row_map = {{ROW_MAP}};

constexpr int BOXES = DEEP / 64, BOX = TILE_K * 8, STAGE = 2 * BOXES * BOX;  // in vectors of 16 bytes
constexpr int OUT_ROWS = ROWS < 16 ? ROWS : 16, PITCH = DEEP + 4, PARTIAL = OUT_ROWS * PITCH;

// Packs the low, or the high, halves of two words.
__device__ __forceinline__ unsigned pack_low(unsigned a, unsigned b) { return (a & 0xffffu) | b << 16; }
__device__ __forceinline__ unsigned pack_high(unsigned a, unsigned b) { return a >> 16 | (b & 0xffff0000u); }

__device__ __forceinline__ void load_vector(unsigned (&to)[4], const float4* from) {
  const float4 got = *from;
  to[0] = __float_as_uint(got.x), to[1] = __float_as_uint(got.y);
  to[2] = __float_as_uint(got.z), to[3] = __float_as_uint(got.w);
}

// Loads the fragments of Q, with K permuted as the vectors of keys are read.
__device__ __forceinline__ void load_queries(
    unsigned (&query)[DEEP / 16][4], const half_bits* __restrict__ q, int matrix, int row0, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + lane / 4 + half * 8;
    const half_bits* const from = q + query_offset(matrix, row < ROWS ? row : 0) + lane % 4 * 16;
#pragma unroll
    for (int b = 0; b < 2 * BOXES; ++b) {
      unsigned word[4] = {0, 0, 0, 0};
      const int first = b / 2 * 64 + b % 2 * 8;
      if (row < ROWS && (DEEP == D || first + lane % 4 * 16 < D))
        load_vector(word, reinterpret_cast<const float4*>(from + first));
#pragma unroll
      for (int i = 0; i < 4; ++i) query[2 * b + i / 2][i % 2 * 2 + half] = word[i];
    }
  }
}

__device__ __forceinline__ void compute_scores(
    float (&score)[TILE_K / 8][4], const unsigned (&query)[DEEP / 16][4], const float4* keys, int lane) {
  const int g = lane / 4, t = lane % 4, own[2] = {g * 8 + (2 * t ^ g), g * 8 + ((2 * t + 1) ^ g)};
#pragma unroll
  for (int j = 0; j < TILE_K / 8; ++j) {
#pragma unroll
    for (int r = 0; r < 4; ++r) score[j][r] = 0.0f;
#pragma unroll
    for (int b = 0; b < 2 * BOXES; ++b) {
      unsigned word[4];
      load_vector(word, keys + b / 2 * BOX + j * 64 + own[b % 2]);
      multiply_add(score[j], query[2 * b], word[0], word[1], lane);
      multiply_add(score[j], query[2 * b + 1], word[2], word[3], lane);
    }
  }
}

__device__ __forceinline__ void add_values(
    float (&out)[DEEP / 8][4], const float (&score)[TILE_K / 8][4], const float4* values, int lane) {
  const int g = lane / 4, t = lane % 4;
  const int own[2] = {2 * t * 8 + (g ^ 2 * t), (2 * t + 1) * 8 + (g ^ (2 * t + 1))};
#pragma unroll
  for (int s = 0; s < TILE_K / 16; ++s) {
    unsigned left[4];
    pack_left(left, score, s);
#pragma unroll
    for (int c = 0; c < BOXES; ++c) {
      unsigned word[4][4];
#pragma unroll
      for (int i = 0; i < 4; ++i) load_vector(word[i], values + c * BOX + s * 128 + i / 2 * 64 + own[i % 2]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        multiply_add(
            out[c * 8 + 2 * i], left, pack_low(word[0][i], word[1][i]), pack_low(word[2][i], word[3][i]), lane);
        multiply_add(
            out[c * 8 + 2 * i + 1], left, pack_high(word[0][i], word[1][i]), pack_high(word[2][i], word[3][i]), lane);
      }
    }
  }
}

// Stores the partial results of a warp: for each row accumulators, the largest score and the sum of exponentials.
__device__ __forceinline__ void store_partial(float* partial, const Sums& sums, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    const float total = sum_of_four(sums.total[half]);
    if (row >= OUT_ROWS) continue;
    float* const to = partial + row * PITCH;
#pragma unroll
    for (int d = 0; d < DEEP / 8; d += 4)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float four[4] = {
            sums.out[d][half * 2 + r], sums.out[d + 1][half * 2 + r], sums.out[d + 2][half * 2 + r],
            sums.out[d + 3][half * 2 + r]};
        store_vector<4>(to + d / 8 * 64 + lane % 4 * 16 + r * 8 + d % 8, four);
      }
    if (lane % 4 == 0) to[DEEP] = scaled_most(sums.most[half]), to[DEEP + 1] = total;
  }
}

// Combines the partial results of the warps of a block, and writes the result, or with SPLIT a partial one for
// `attention_join`.
__device__ __forceinline__ void write_combined(
    RESULT* __restrict__ to, const float* partial, int matrix, int row0, int tid) {
  for (int i = tid; i < OUT_ROWS * (D / 2); i += THREADS) {
    const int row = i / (D / 2), d = i % (D / 2) * 2;
    if (row0 + row >= ROWS) break;
    const float* const from = partial + row * PITCH;
    float largest = SMALLEST, total = 0.0f, pair[2] = {0.0f, 0.0f};
#pragma unroll
    for (int w = 0; w < KEY_WARPS; ++w) largest = fmaxf(largest, from[w * PARTIAL + DEEP]);
    const float base = largest == SMALLEST ? 0.0f : largest;
#pragma unroll
    for (int w = 0; w < KEY_WARPS; ++w) {
      const float factor = exp2_approx(from[w * PARTIAL + DEEP] - base);
      total += factor * from[w * PARTIAL + DEEP + 1];
#pragma unroll
      for (int r = 0; r < 2; ++r) pair[r] += factor * from[w * PARTIAL + d + r];
    }
#if SPLIT > 1
    float* const part = to + ((static_cast<size_t>(blockIdx.y) * MATRICES + matrix) * ROWS + row0 + row) * PART;
    store_vector<2>(part + d, pair);
    if (d == 0) part[D] = largest, part[D + 1] = total;
#else
    const float factor = total > 0.0f ? 1.0f / total : 0.0f;
    *reinterpret_cast<unsigned*>(to + result_offset(matrix, row0 + row) + d) =
        pack_pair(pair[0] * factor, pair[1] * factor);
#endif
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) attention_decode(
    const half_bits* __restrict__ q, const half_bits* __restrict__ k,
    const half_bits* __restrict__ v, BIAS_PARAMETER RESULT* __restrict__ to) {
  extern __shared__ float4 shared_memory[];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const unsigned first = (shared_address(shared_memory) + 1023) / 1024 * 1024;
  const unsigned own_buffer = first + warp * (STAGES * STAGE * 16);
  const unsigned full = first + KEY_WARPS * (STAGES * STAGE * 16) + warp * (STAGES * 8);
  const float4* const buffer = static_cast<const float4*>(__cvta_shared_to_generic(own_buffer));
  const Work work = work_of_block();
  const int matrix = work.matrix, row0 = work.row0, begin = work.begin + warp, end = work.end;
  k += keys_offset(matrix) + K_FIRST;
  v += keys_offset(matrix) + V_FIRST;

  auto load = [&](int tile, int stage) {
    if (tile >= end || !elect_one()) return;
    const unsigned to = own_buffer + stage * (STAGE * 16), barrier = full + stage * 8;
    barrier_arrive_expect_tx(barrier, STAGE * 16);
#pragma unroll
    for (int i = 0; i < BOXES; ++i) {
      tma_load<1>(to + i * (BOX * 16), row_map, k, i * 64, tile * TILE_K, barrier);
      tma_load<1>(to + (BOXES + i) * (BOX * 16), row_map, v, i * 64, tile * TILE_K, barrier);
    }
  };
  if (elect_one()) {
    prefetch_tensor_map(row_map);
#pragma unroll
    for (int i = 0; i < STAGES; ++i) barrier_init(full + i * 8, 1);
    fence_mbarrier_init();
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) load(begin + i * KEY_WARPS, i);

  unsigned query[DEEP / 16][4];
  load_queries(query, q, matrix, row0, lane);
  Sums sums;
  sums.clear();
  int stage = 0, free_stage = STAGES - 1;
  unsigned parity = 0;
#pragma unroll 1
  for (int tile = begin; tile < end; tile += KEY_WARPS) {
    // All lanes have read the stage that is refilled now.
    __syncwarp();
    load(tile + (STAGES - 1) * KEY_WARPS, free_stage);
    const int key0 = tile * TILE_K;
    Bias more;
    more.load(bias, matrix, key0, row0 + lane / 4, lane);
    barrier_wait(full + stage * 8, parity);
    if (!CAUSAL || key0 <= last_visible(row0 + 15)) {
      float score[TILE_K / 8][4];
      compute_scores(score, query, buffer + stage * STAGE, lane);
      more.add(score);
      mask_tile(score, key0, row0, lane);
      float factor[2];
      exponentials(score, sums.most, sums.total, factor);
      rescale(sums.out, factor);
      add_values(sums.out, score, buffer + stage * STAGE + BOXES * BOX, lane);
    }
    free_stage = stage;
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
#if SPLIT > 1
  launch_dependent_grids();
#endif
  __syncthreads();
  float* const partial = static_cast<float*>(__cvta_shared_to_generic(first));
  store_partial(partial + warp * PARTIAL, sums, lane);
  __syncthreads();
  write_combined(to, partial, matrix, row0, tid);
}
