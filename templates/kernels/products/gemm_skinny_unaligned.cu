// C[M, N] = A[M, K] B[K, N] of 16-bit floats for few rows of A, with B stored as [N, K], whose rows begin at any element
// of a vector of 8 (16 bytes). Those 8 apart begin at the same one, so a block computes only such columns of C: it stages
// A shifted by as many elements, with zeros around, and loads whole vectors, from the one in which a row begins to the
// one in which it ends. What they have of neighbouring rows is masked. Rows of B are the rows of the fragments of
// mma.sync: a warp has 16 of them, of which each thread loads a vector of two for every 32 terms, TOGETHER times, and
// multiplies them in two steps, of which neither A nor B is in the order of its terms, but both in the same. Warps that
// share a sum add theirs up in shared memory, and so do the blocks of a cluster, which have SPLIT ranges of K.
constexpr int WARPS = GROUPS * ALONG, FRAGS = (M + 7) / 8, ROWS = 16 * GROUPS;
// Terms of a warp in a turn of all, turns of a range, and terms of A in shared memory, padded against bank conflicts.
constexpr int TERMS = 32 * TOGETHER, TURNS = (RANGE + TERMS * ALONG - 1) / (TERMS * ALONG);
constexpr int STAGED = TURNS * TERMS * ALONG, PITCH = STAGED + 32 * (STAGED % 64 == 0);
constexpr size_t SIZE = static_cast<size_t>(N) * K;
// Elements behind the last whole vector of B, all of its last row.
constexpr int LEFT_OVER = SIZE % 8;

// Loads those of some vectors of a row that are among the first `count`.
template <bool RESIDENT_HERE>
__device__ __forceinline__ void load_row(uint4 (&to)[TOGETHER], const uint4* from, int count) {
#pragma unroll
  for (int i = 0; i < TOGETHER; ++i) {
    to[i] = make_uint4(0, 0, 0, 0);
    if (i * 4 < count) to[i] = load_weight<RESIDENT_HERE>(from + i * 4);
  }
}

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS) gemm_skinny_unaligned(
    const Element* __restrict__ a, const Element* __restrict__ b, EPILOGUE_PARAMETERS Element* __restrict__ out) {
  extern __shared__ uint4 shared_memory[];
  Element* const left = reinterpret_cast<Element*>(shared_memory);
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, eight = lane / 4, four = lane % 4;
  const int slice = warp / GROUPS, row0 = warp % GROUPS * 16 + eight;
  const int n0 = blockIdx.x / 8 * (8 * ROWS) + blockIdx.x % 8;
  const int before = blockIdx.x % 8 * (K % 8) % 8;
  // Terms count from the vector in which a row begins.
  const int begin = blockIdx.z * RANGE, end = begin + RANGE < K + before ? begin + RANGE : K + before;
  const int last = (K + before - 1) / 8;
  const uint4* const from = reinterpret_cast<const uint4*>(b + (static_cast<long long>(n0) * K - before));
  // The last vector of B may be no whole one.
  const bool with_last[2] = {n0 + row0 * 8 == N - 1, n0 + (row0 + 8) * 8 == N - 1};
  int counts[2];  // of whole vectors of rows that exist
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    counts[r] = n0 + (row0 + 8 * r) * 8 < N ? (end + 7) / 8 : 0;
    if (LEFT_OVER > 0 && with_last[r] && counts[r] > last) counts[r] = last;
  }
  uint4 left_over = make_uint4(0, 0, 0, 0);
  if (LEFT_OVER > 0 && (with_last[0] || with_last[1])) left_over = load_left_over<LEFT_OVER>(b + (SIZE - LEFT_OVER));

  uint4 words[2][TOGETHER];
  auto load = [&](int turn) {
    const int first = begin / 8 + (turn * ALONG + slice) * (TERMS / 8) + four;
    // Threads of a warp load alike.
    const bool resident = is_resident((blockIdx.x * gridDim.z + blockIdx.z) * TURNS + turn + warp);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const uint4* const at = from + (static_cast<size_t>(row0 + 8 * r) * K + first);
      if (resident) load_row<true>(words[r], at, counts[r] - first);
      else load_row<false>(words[r], at, counts[r] - first);
      if (LEFT_OVER == 0 || !with_last[r]) continue;
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i)
        if (first + i * 4 == last && last * 8 < end) words[r][i] = left_over;
    }
  };
  load(0);

#pragma unroll 8
  for (int first = 0; first < M * STAGED; first += THREADS) {
    const int i = first + tid;
    if (M * STAGED % THREADS != 0 && i >= M * STAGED) break;
    const int m = TRANSPOSE_A ? i % M : i / STAGED, along = TRANSPOSE_A ? i / M : i % STAGED, k = begin + along - before;
    const bool inside = k >= 0 && begin + along < end;
    left[m * PITCH + along] = inside ? a[TRANSPOSE_A ? static_cast<size_t>(k) * M + m : static_cast<size_t>(m) * K + k] : 0;
  }
  // Words of the first and last vectors without elements of neighbouring rows.
  auto masked = [&](uint4 word, int vector) {
    unsigned part[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int v = 0; v < 8; ++v) {
      const int k = vector * 8 + v - before;
      if (k < 0 || k >= K) part[v / 2] &= v % 2 ? 0x0000ffffu : 0xffff0000u;
    }
    return make_uint4(part[0], part[1], part[2], part[3]);
  };
  __syncthreads();

  float sum[FRAGS][4];
#pragma unroll
  for (int i = 0; i < FRAGS * 4; ++i) (&sum[0][0])[i] = 0.0f;
#pragma unroll 1
  for (int turn = 0; turn < TURNS; ++turn) {
    const int along = (turn * ALONG + slice) * TERMS + four * 8;
#pragma unroll
    for (int i = 0; i < TOGETHER; ++i) {
      const int vector = (begin + along) / 8 + i * 4;
      if (vector == 0 || vector == last) {
        words[0][i] = masked(words[0][i], vector);
        words[1][i] = masked(words[1][i], vector);
      }
      const uint4 &one = words[0][i], &other = words[1][i];
      const unsigned first[4] = {one.x, other.x, one.y, other.y}, second[4] = {one.z, other.z, one.w, other.w};
#pragma unroll
      for (int f = 0; f < FRAGS; ++f) {
        const int m = f * 8 + eight;
        uint4 right = make_uint4(0, 0, 0, 0);
        if (m < M) right = *reinterpret_cast<const uint4*>(left + m * PITCH + along + i * 32);
        multiply_add(sum[f], first, right.x, right.y, lane);
        multiply_add(sum[f], second, right.z, right.w, lane);
      }
    }
    if (turn + 1 < TURNS) load(turn + 1);
  }

  __syncthreads();
  float* const parts = reinterpret_cast<float*>(shared_memory);
#pragma unroll
  for (int f = 0; f < FRAGS; ++f)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int m = f * 8 + four * 2 + i % 2;
      if (m < M) parts[(slice * M + m) * ROWS + row0 + i / 2 * 8] = sum[f][i];
    }
  __syncthreads();
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif
  auto total_of = [&](int i) {
    float total = parts[i];
#pragma unroll
    for (int part = 1; part < ALONG; ++part) total += parts[part * M * ROWS + i];
    return total;
  };
#if CLUSTER
  for (int i = tid; i < M * ROWS; i += THREADS) parts[i] = total_of(i);
  cluster_sync();
  for (int i = blockIdx.z * THREADS + tid; i < M * ROWS; i += SPLIT * THREADS) {
    float total[1] = {cluster_sum<SPLIT>(parts + i)};
#else
  for (int i = tid; i < M * ROWS; i += THREADS) {
    float total[1] = {total_of(i)};
#endif
    const int column = n0 + i % ROWS * 8;
    if (column >= N) continue;
    const size_t at = static_cast<size_t>(i / ROWS) * N + column;
#if FOLLOWS
    finish<1>(total, epilogue, column, at);
#endif
    store_elements<1>(out + at, total);
  }
#if CLUSTER
  cluster_sync();  // no block may exit while another still reads its shared memory
#endif
}
