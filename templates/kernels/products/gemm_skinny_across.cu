// C[M, N] = A[M, K] B[K, N] of 16-bit floats for few rows of A, with B stored as [K, N], whose rows begin at any element
// of a vector of 8 (16 bytes). Every eighth row begins at the same one, so a warp multiplies only such rows: it loads
// whole vectors, from the one in which the columns of its block begin, and what these have of columns before and behind
// is summed too, and not used. Nothing is shifted: where a row begins shifts the columns that sums are of. In the
// fragments of mma.sync columns of B are rows, of which a thread has eight neighbours. The sums of the warps of a block
// are added up in shared memory, and those of the blocks of a cluster, which have SPLIT ranges of K.
constexpr int CLASSES = 8, WARPS = CLASSES * ALONG, FRAGS = (M + 7) / 8;
// Columns that a warp loads, and those of a block: all but a vector, by whose elements rows are shifted.
constexpr int WIDTH = 64 * STRIPS, COLUMNS = WIDTH - 8;
// Rows of a class that a warp multiplies at a time; steps of a range; elements of A for a class, padded so that rows of
// A start in different banks.
constexpr int STEP = 16, STEPS = (RANGE / CLASSES + STEP * ALONG - 1) / (STEP * ALONG);
constexpr int PITCH = STEP * (STEPS * ALONG | 1);
// Elements behind the last whole vector of B, all of its last row.
constexpr size_t SIZE = static_cast<size_t>(N) * K;
constexpr int LEFT_OVER = SIZE % 8;

// Loads vectors of four rows of a class up to a column of each.
template <bool RESIDENT_HERE>
__device__ __forceinline__ void load_rows(
    unsigned (&to)[STRIPS][4][4], const uint4* from, int column, const int (&ends)[4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int s = 0; s < STRIPS; ++s) {
      uint4 vector = make_uint4(0, 0, 0, 0);
      if (column + s * 64 < ends[j]) vector = load_weight<RESIDENT_HERE>(from + (static_cast<size_t>(j) * N + s * 8));
      to[s][j][0] = vector.x, to[s][j][1] = vector.y, to[s][j][2] = vector.z, to[s][j][3] = vector.w;
    }
}

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS) gemm_skinny_across(
    const Element* __restrict__ a, const Element* __restrict__ b, EPILOGUE_PARAMETERS Element* __restrict__ out) {
  extern __shared__ uint4 shared_memory[];
  Element* const left = reinterpret_cast<Element*>(shared_memory);
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, eight = lane / 4, four = lane % 4;
  const int row0 = warp % CLASSES, group = warp / CLASSES;
  const int n0 = blockIdx.x * COLUMNS, n_end = n0 + COLUMNS < N ? n0 + COLUMNS : N;
  const int k_begin = blockIdx.z * RANGE, k_end = k_begin + RANGE < K ? k_begin + RANGE : K;
  const int column = n0 - row0 * (N % 8) % 8 + eight * 8;
  // The last vector of B may be no whole one.
  const int whole_end = n_end < N - 7 ? n_end : N - 7;
  uint4 left_over = make_uint4(0, 0, 0, 0);
  if (LEFT_OVER > 0 && n_end > whole_end && k_end == K) left_over = load_left_over<LEFT_OVER>(b + (SIZE - LEFT_OVER));
  // Rows of a class are N vectors apart.
  const uint4* const from =
      reinterpret_cast<const uint4*>(b + (static_cast<long long>(k_begin + row0) * N + column));

  unsigned words[AHEAD][STRIPS][4][4];
  auto load = [&](unsigned (&to)[STRIPS][4][4], int step) {
    const int row = (step * ALONG + group) * STEP + four * 4, k = k_begin + row * CLASSES + row0;
    int ends[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      ends[j] = k + j * CLASSES < k_end ? n_end : -8;  // columns begin at -7
      if (LEFT_OVER > 0 && k + j * CLASSES == K - 1) ends[j] = whole_end;
    }
    // Threads of a warp load alike.
    const uint4* const at = from + static_cast<size_t>(row) * N;
    if (is_resident((blockIdx.z * STEPS + step) * WARPS + warp + blockIdx.x)) load_rows<true>(to, at, column, ends);
    else load_rows<false>(to, at, column, ends);
    if (LEFT_OVER == 0 || n_end <= whole_end || k > K - 1 || k + 3 * CLASSES < K - 1) return;
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int s = 0; s < STRIPS; ++s) {
        const int n = column + s * 64;
        if (k + j * CLASSES != K - 1 || n < whole_end || n >= n_end) continue;
        to[s][j][0] = left_over.x, to[s][j][1] = left_over.y, to[s][j][2] = left_over.z, to[s][j][3] = left_over.w;
      }
  };
  load(words[0], 0);

#pragma unroll 8
  for (int first = 0; first < M * CLASSES * PITCH; first += THREADS) {
    const int i = first + tid;
    if (M * CLASSES * PITCH % THREADS != 0 && i >= M * CLASSES * PITCH) break;
    const int m = TRANSPOSE_A ? i % M : i / (CLASSES * PITCH), along = TRANSPOSE_A ? i / M : i % (CLASSES * PITCH);
    const int k = k_begin + along;
    const Element one = k < k_end ? a[TRANSPOSE_A ? static_cast<size_t>(k) * M + m : static_cast<size_t>(m) * K + k] : 0;
    left[(along % CLASSES * M + m) * PITCH + along / CLASSES] = one;
  }
  __syncthreads();

  float sum[STRIPS][4][FRAGS][4];
#pragma unroll
  for (int i = 0; i < STRIPS * 16 * FRAGS; ++i) (&sum[0][0][0][0])[i] = 0.0f;
  auto multiply = [&](const unsigned (&of)[STRIPS][4][4], int step) {
    uint2 right[FRAGS];
#pragma unroll
    for (int f = 0; f < FRAGS; ++f) {
      const int m = f * 8 + eight;
      right[f] = make_uint2(0, 0);
      if (m < M)
        right[f] = *reinterpret_cast<const uint2*>(
            left + (row0 * M + m) * PITCH + (step * ALONG + group) * STEP + four * 4);
    }
#pragma unroll
    for (int s = 0; s < STRIPS; ++s)
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        // Pairs of rows, of two neighbouring columns.
        const unsigned pairs[4] = {
            __byte_perm(of[s][0][q], of[s][1][q], 0x5410), __byte_perm(of[s][0][q], of[s][1][q], 0x7632),
            __byte_perm(of[s][2][q], of[s][3][q], 0x5410), __byte_perm(of[s][2][q], of[s][3][q], 0x7632)};
#pragma unroll
        for (int f = 0; f < FRAGS; ++f) multiply_add(sum[s][q][f], pairs, right[f].x, right[f].y, lane);
      }
  };
#pragma unroll 1
  for (int step = 0; step < STEPS; step += AHEAD) {
#if AHEAD > 1
    if (step + 1 < STEPS) load(words[1], step + 1);
    multiply(words[0], step);
    if (step + 1 >= STEPS) break;
    if (step + 2 < STEPS) load(words[0], step + 2);
    multiply(words[1], step + 1);
#else
    multiply(words[0], step);
    if (step + 1 < STEPS) load(words[0], step + 1);
#endif
  }

  __syncthreads();
  float* const parts = reinterpret_cast<float*>(shared_memory);
#pragma unroll
  for (int f = 0; f < FRAGS; ++f)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int m = f * 8 + four * 2 + r;
      if (m >= M) continue;
#pragma unroll
      for (int s = 0; s < STRIPS; ++s)
#pragma unroll
        for (int q = 0; q < 4; ++q)
          *reinterpret_cast<float2*>(parts + (warp * M + m) * WIDTH + s * 64 + eight * 8 + q * 2) =
              make_float2(sum[s][q][f][r], sum[s][q][f][2 + r]);
    }
  __syncthreads();
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif
  auto total_of = [&](int m, int j) {
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) total += parts[(w * M + m) * WIDTH + j + w % CLASSES * (N % 8) % 8];
    return total;
  };
#if CLUSTER
  // Rows of the first class begin with a vector: no other thread reads the place of a total.
  for (int i = tid; i < M * COLUMNS; i += THREADS) {
    const int m = i / COLUMNS, j = i % COLUMNS;
    parts[m * WIDTH + j] = total_of(m, j);
  }
  cluster_sync();
  for (int i = blockIdx.z * THREADS + tid; i < M * COLUMNS; i += SPLIT * THREADS) {
    const int m = i / COLUMNS, j = i % COLUMNS;
    float total[1] = {cluster_sum<SPLIT>(parts + m * WIDTH + j)};
#else
  for (int i = tid; i < M * COLUMNS; i += THREADS) {
    const int m = i / COLUMNS, j = i % COLUMNS;
    float total[1] = {total_of(m, j)};
#endif
    if (n0 + j >= N) continue;
    const size_t at = static_cast<size_t>(m) * N + n0 + j;
#if FOLLOWS
    finish<1>(total, epilogue, n0 + j, at);
#endif
    store_elements<1>(out + at, total);
  }
#if CLUSTER
  cluster_sync();  // no block may exit while another still reads its shared memory
#endif
}
