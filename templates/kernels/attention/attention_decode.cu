// softmax(Q K^T * scale) V where few rows of queries see many keys, as in decoding: what counts is how fast keys
// and values come. Each of KEY_WARPS warps of a block takes chunks of TILE_K keys for itself, which the bulk copy engine
// brings to a ring of its own in shared memory, and what the warps found is joined at the end. Words are read 16 bytes
// at a time, and no two threads meet at a bank: columns of a product's sum may stand in any order if those of both
// operands do, and so may its columns of results.
//
// Boxes have 64 columns. With g = lane / 4 and t = lane % 4, a thread has, of key 8 j + g, vectors 2 t and 2 t + 1 of
// the eight of each box; of values, of keys 16 s + 2 t, the next, and these two + 8, vector g. Word i of the latter's
// sums is of column 16 t + i % 8 of a box.
__constant__ __align__(128) TensorMap row_map = {{ROW_MAP}};

constexpr int BOXES = D / 64, BOX = TILE_K * 8, SLOT = 2 * BOXES * BOX;  // in vectors of 16 bytes
constexpr int HELD = ROWS < 16 ? ROWS : 16, PITCH = D + 4, FOUND = HELD * PITCH;

// The 16 bits of two words that stand low, or high.
__device__ __forceinline__ unsigned both_low(unsigned a, unsigned b) { return (a & 0xffffu) | b << 16; }
__device__ __forceinline__ unsigned both_high(unsigned a, unsigned b) { return a >> 16 | (b & 0xffff0000u); }

__device__ __forceinline__ void load_vector(unsigned (&to)[4], const float4* from) {
  const float4 got = *from;
  to[0] = __float_as_uint(got.x), to[1] = __float_as_uint(got.y);
  to[2] = __float_as_uint(got.z), to[3] = __float_as_uint(got.w);
}

// The rows of Q that a thread multiplies: words as the first products of a vector of a key, and the others, want them.
__device__ __forceinline__ void load_queries(
    unsigned (&query)[D / 16][4], const half_bits* __restrict__ q, int matrix, int row0, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row0 + lane / 4 + half * 8;
    const half_bits* const from = q + query_begin(matrix, row < ROWS ? row : 0) + lane % 4 * 16;
#pragma unroll
    for (int b = 0; b < 2 * BOXES; ++b) {
      unsigned word[4] = {0, 0, 0, 0};
      if (row < ROWS) load_vector(word, reinterpret_cast<const float4*>(from + b / 2 * 64 + b % 2 * 8));
#pragma unroll
      for (int i = 0; i < 4; ++i) query[2 * b + i / 2][i % 2 * 2 + half] = word[i];
    }
  }
}

__device__ __forceinline__ void compute_scores(
    float (&score)[TILE_K / 8][4], const unsigned (&query)[D / 16][4], const float4* keys, int lane) {
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
            out[c * 8 + 2 * i], left, both_low(word[0][i], word[1][i]), both_low(word[2][i], word[3][i]), lane);
        multiply_add(
            out[c * 8 + 2 * i + 1], left, both_high(word[0][i], word[1][i]), both_high(word[2][i], word[3][i]), lane);
      }
    }
  }
}

// Leaves what a warp found for the others of its block: sums, and behind those of each row the largest score and
// the sum of exponentials.
__device__ __forceinline__ void leave(float* found, const Sums& sums, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    const float total = sum_of_four(sums.total[half]);
    if (row >= HELD) continue;
    float* const to = found + row * PITCH;
#pragma unroll
    for (int d = 0; d < DEEP / 8; d += 4)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float four[4] = {
            sums.out[d][half * 2 + r], sums.out[d + 1][half * 2 + r], sums.out[d + 2][half * 2 + r],
            sums.out[d + 3][half * 2 + r]};
        store_vector<4>(to + d / 8 * 64 + lane % 4 * 16 + r * 8 + d % 8, four);
      }
    if (lane % 4 == 0) to[D] = sums.most[half] * SCALE_LOG2, to[D + 1] = total;
  }
}

// Joins what the warps of a block found, and writes it: the result, or with SPLIT what `attention_join` makes it of.
__device__ __forceinline__ void write_found(
    RESULT* __restrict__ to, const float* found, int matrix, int row0, int tid) {
  for (int i = tid; i < HELD * (D / 2); i += THREADS) {
    const int row = i / (D / 2), d = i % (D / 2) * 2;
    if (row0 + row >= ROWS) break;
    const float* const from = found + row * PITCH;
    float largest = SMALLEST, total = 0.0f, pair[2] = {0.0f, 0.0f};
#pragma unroll
    for (int w = 0; w < KEY_WARPS; ++w) largest = fmaxf(largest, from[w * FOUND + D]);
    const float base = largest == SMALLEST ? 0.0f : largest;
#pragma unroll
    for (int w = 0; w < KEY_WARPS; ++w) {
      const float factor = power_of_two(from[w * FOUND + D] - base);
      total += factor * from[w * FOUND + D + 1];
#pragma unroll
      for (int r = 0; r < 2; ++r) pair[r] += factor * from[w * FOUND + d + r];
    }
#if SPLIT > 1
    float* const part = to + ((static_cast<size_t>(blockIdx.y) * MATRICES + matrix) * ROWS + row0 + row) * PART;
    store_vector<2>(part + d, pair);
    if (d == 0) part[D] = largest, part[D + 1] = total;
#else
    const float factor = total > 0.0f ? 1.0f / total : 0.0f;
    *reinterpret_cast<unsigned*>(to + result_begin(matrix, row0 + row) + d) =
        pack_pair(pair[0] * factor, pair[1] * factor);
#endif
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) attention_decode(
    const half_bits* __restrict__ q, const half_bits* __restrict__ k,
    const half_bits* __restrict__ v, RESULT* __restrict__ to) {
  extern __shared__ float4 shared_memory[];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const unsigned first = (shared_address(shared_memory) + 1023) / 1024 * 1024;
  const unsigned own_ring = first + warp * (STAGES * SLOT * 16);
  const unsigned full = first + KEY_WARPS * (STAGES * SLOT * 16) + warp * (STAGES * 8);
  const float4* const ring = static_cast<const float4*>(__cvta_shared_to_generic(own_ring));
  const Work work = work_of_block();
  const int matrix = work.matrix, row0 = work.row0, begin = work.begin + warp, end = work.end;
  k += keys_begin(matrix) + K_FIRST;
  v += keys_begin(matrix) + V_FIRST;

  auto stage = [&](int chunk, int slot) {
    if (chunk >= end || !elected()) return;
    const unsigned to = own_ring + slot * (SLOT * 16), barrier = full + slot * 8;
    barrier_expect(barrier, SLOT * 16);
#pragma unroll
    for (int i = 0; i < BOXES; ++i) {
      copy_box<1>(to + i * (BOX * 16), row_map, k, i * 64, chunk * TILE_K, barrier);
      copy_box<1>(to + (BOXES + i) * (BOX * 16), row_map, v, i * 64, chunk * TILE_K, barrier);
    }
  };
  if (elected()) {
    fetch_map(row_map);
#pragma unroll
    for (int i = 0; i < STAGES; ++i) barrier_init(full + i * 8, 1);
    barriers_are_ready();
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) stage(begin + i * KEY_WARPS, i);

  unsigned query[D / 16][4];
  load_queries(query, q, matrix, row0, lane);
  Sums sums;
  sums.clear();
  int slot = 0, free_slot = STAGES - 1;
  unsigned parity = 0;
#pragma unroll 1
  for (int chunk = begin; chunk < end; chunk += KEY_WARPS) {
    // All have read what stood in the slot that is filled now.
    __syncwarp();
    stage(chunk + (STAGES - 1) * KEY_WARPS, free_slot);
    barrier_wait(full + slot * 8, parity);
    const int key0 = chunk * TILE_K;
    if (!CAUSAL || key0 <= last_seen(row0 + 15)) {
      float score[TILE_K / 8][4];
      compute_scores(score, query, ring + slot * SLOT, lane);
      mask_border(score, key0, row0, lane);
      float factor[2];
      exponentials(score, sums.most, sums.total, factor);
      rescale(sums.out, factor);
      add_values(sums.out, score, ring + slot * SLOT + BOXES * BOX, lane);
    }
    free_slot = slot;
    if (++slot == STAGES) slot = 0, parity ^= 1;
  }
#if SPLIT > 1
  let_next_begin();
#endif
  __syncthreads();
  float* const found = static_cast<float*>(__cvta_shared_to_generic(first));
  leave(found + warp * FOUND, sums, lane);
  __syncthreads();
  write_found(to, found, matrix, row0, tid);
}
