// softmax(Q K^T * scale) V on tensor cores by mma.sync: 16-bit floats, sums and exponentials in float32. A warp
// owns 16 rows. Keys and values pass through a pipeline of STAGES stages, TILE_K at a time.
constexpr int PITCH = DEEP + 8, STAGE = 2 * TILE_K * PITCH;
// Elements of a copy: as many as divide a head, to which rows are aligned.
constexpr int COPIED = D % 8 == 0 ? 8 : D % 4 == 0 ? 4 : 2, VECTORS = DEEP / COPIED;

__device__ __forceinline__ void copy_vector(half_bits* dst, const half_bits* src, bool valid) {
  copy_async<COPIED / 2>(reinterpret_cast<float*>(dst), reinterpret_cast<const float*>(src), valid);
}

__device__ __forceinline__ void stage_keys(
    half_bits* dst, const half_bits* __restrict__ from, int key0, int tid) {
  each_vector<TILE_K, VECTORS>(tid, [&](int row, int vector) {
    const bool valid = (KEYS % TILE_K == 0 || key0 + row < KEYS) && (DEEP == D || vector < D / COPIED);
    const int column = vector * COPIED;
    copy_vector(dst + row * PITCH + column, from + static_cast<size_t>(key0 + row) * K_ROW + column, valid);
  });
}

__device__ __forceinline__ void compute_scores(
    float (&score)[TILE_K / 8][4], const unsigned (&query)[DEEP / 16][4], const half_bits* keys, int lane) {
#pragma unroll
  for (int j = 0; j < TILE_K / 8; ++j)
#pragma unroll
    for (int r = 0; r < 4; ++r) score[j][r] = 0.0f;
#pragma unroll
  for (int d = 0; d < DEEP / 16; ++d)
#pragma unroll
    for (int j = 0; j < TILE_K / 16; ++j) {
      unsigned right[4];
      load_right<true>(right, keys + j * 16 * PITCH + d * 16, PITCH, lane);
      multiply_add(score[2 * j], query[d], right[0], right[1], lane);
      multiply_add(score[2 * j + 1], query[d], right[2], right[3], lane);
    }
}

__device__ __forceinline__ void add_values(
    float (&out)[DEEP / 8][4], const float (&score)[TILE_K / 8][4], const half_bits* values, int lane) {
#pragma unroll
  for (int k = 0; k < TILE_K / 16; ++k) {
    unsigned left[4];
    pack_left(left, score, k);
#pragma unroll
    for (int d = 0; d < DEEP / 16; ++d) {
      unsigned right[4];
      load_right<false>(right, values + k * 16 * PITCH + d * 16, PITCH, lane);
      multiply_add(out[2 * d], left, right[0], right[1], lane);
      multiply_add(out[2 * d + 1], left, right[2], right[3], lane);
    }
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) attention(
    const half_bits* __restrict__ q, const half_bits* __restrict__ k,
    const half_bits* __restrict__ v, BIAS_PARAMETER RESULT* __restrict__ to) {
  extern __shared__ float4 shared_memory[];
  half_bits* const queries = reinterpret_cast<half_bits*>(shared_memory);
  half_bits* const buffer = queries + TILE_Q * PITCH;
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const Work work = work_of_block();
  const int matrix = work.matrix, row0 = work.row0, begin = work.begin, end = work.end;
  k += keys_offset(matrix) + K_FIRST;
  v += keys_offset(matrix) + V_FIRST;

  auto load = [&](int tile, int stage) {
    if (tile < end) {
      stage_keys(buffer + stage * STAGE, k, tile * TILE_K, tid);
      stage_keys(buffer + stage * STAGE + TILE_K * PITCH, v, tile * TILE_K, tid);
    }
    copy_commit();
  };
  each_vector<TILE_Q, VECTORS>(tid, [&](int row, int vector) {
    const bool valid = row0 + row < ROWS && (DEEP == D || vector < D / COPIED);
    const int column = vector * COPIED;
    copy_vector(queries + row * PITCH + column, q + query_offset(matrix, row0 + row) + column, valid);
  });
#pragma unroll
  for (int i = 0; i < STAGES - 1; ++i) load(begin + i, i);

  unsigned query[DEEP / 16][4];
  Sums sums;
  sums.clear();

  int stage = 0, free_stage = STAGES - 1;
#pragma unroll 1
  for (int tile = begin; tile < end; ++tile) {
    copy_wait<STAGES - 2>();
    __syncthreads();
    load(tile + STAGES - 1, free_stage);
    if (tile == begin) {
#pragma unroll
      for (int d = 0; d < DEEP / 16; ++d)
        load_left<false>(query[d], queries + warp * 16 * PITCH + d * 16, PITCH, lane);
    }
    const int key0 = tile * TILE_K, first = row0 + warp * 16;
    if (!CAUSAL || key0 <= last_visible(first + 15)) {
      float score[TILE_K / 8][4];
      const half_bits* const keys = buffer + stage * STAGE;
      Bias more;
      more.load(bias, matrix, key0, first + lane / 4, lane);
      compute_scores(score, query, keys, lane);
      more.add(score);
      mask_tile(score, key0, first, lane);
      float factor[2];
      exponentials(score, sums.most, sums.total, factor);
      rescale(sums.out, factor);
      add_values(sums.out, score, keys + TILE_K * PITCH, lane);
    }
    free_stage = stage;
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  copy_wait<0>();
  write_rows(to, sums, matrix, row0 + warp * 16, lane);
}
