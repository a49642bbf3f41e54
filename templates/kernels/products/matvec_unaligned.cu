// C[M, N] = A[M, K] B[K, N] for few rows of A, with B stored as [N, K], where vectors of VEC elements (16 bytes) do not
// divide K: its rows begin at any element of a vector. Those VEC apart begin at the same one, so a block computes only
// such columns of C: it stages A shifted by as many elements, with zeros around, and loads whole vectors, from the one in
// which a row begins to the one in which it ends. What they have of neighbouring rows is masked. A group of LANES threads
// has its part of A in registers, and computes AHEAD times ROWS columns, of which it loads ROWS together.
constexpr int WIDTH = LANES < 32 ? LANES : 32, ITEM_BITS = 8 * sizeof(Element);
// Vectors of a row at least and at most, and those of a lane.
constexpr int LEAST = (K + VEC - 1) / VEC, MOST = (K + 2 * VEC - 2) / VEC, STEPS = (MOST + LANES - 1) / LANES;
constexpr int SHIFTED = STEPS * LANES * VEC, TOGETHER = GROUPS * ROWS * AHEAD;
constexpr size_t SIZE = static_cast<size_t>(N) * K;
// Elements behind the last whole vector of B: all are of its last row, of which they are that vector.
constexpr int LEFT_OVER = SIZE % VEC, LAST = LEFT_OVER > 0 ? (K - LEFT_OVER + VEC - 1) / VEC : 0;
#if LANES > 32
constexpr int WARPS_A_GROUP = LANES / 32;
#endif

__device__ __forceinline__ float sum_of_lanes(float sum) {
#pragma unroll
  for (int apart = WIDTH / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
  return sum;
}

// Whether vectors of a step may have elements of neighbouring rows.
__device__ __forceinline__ constexpr bool is_masked(int step) { return step == 0 || (step + 1) * LANES >= LEAST; }

// Loads those vectors of rows that a lane multiplies; rows have `counts` vectors from `first` on.
template <bool RESIDENT_HERE>
__device__ __forceinline__ void load_rows(
    uint4 (&to)[ROWS][STEPS], const uint4* const (&first)[ROWS], const int (&counts)[ROWS], int lane) {
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      to[r][step] = make_uint4(0, 0, 0, 0);
      const int vector = step * LANES + lane;
      if (vector < counts[r]) to[r][step] = load_weight<RESIDENT_HERE>(first[r] + vector);
    }
}

extern "C" __global__ void __launch_bounds__(LANES * GROUPS) matvec_unaligned(
    const Element* __restrict__ a, const Element* __restrict__ b, EPILOGUE_PARAMETERS Element* __restrict__ out) {
  __shared__ float4 shifted[M * SHIFTED / 4];
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const int n0 = blockIdx.x / VEC * (VEC * TOGETHER) + blockIdx.x % VEC;
  const int before = static_cast<unsigned>(blockIdx.x % VEC) * (K % VEC) % VEC;
  const int vectors = (K + before + VEC - 1) / VEC;
  // Threads of a warp load alike.
  const bool resident = is_resident((blockIdx.x * (LANES * GROUPS) + threadIdx.x) / (LANES < 32 ? 32 : LANES));

  uint4 words[ROWS][STEPS];
  auto column = [&](int batch, int r) { return n0 + ((batch * ROWS + r) * GROUPS + group) * VEC; };
  auto load = [&](int batch) {
    const uint4* first[ROWS];
    int counts[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const int n = column(batch, r);
      counts[r] = n < N ? vectors - (LEFT_OVER > 0 && n == N - 1) : 0;
      first[r] = reinterpret_cast<const uint4*>(b + (static_cast<size_t>(n < N ? n : 0) * K - (n < N ? before : 0)));
    }
    if (resident) load_rows<true>(words, first, counts, lane);
    else load_rows<false>(words, first, counts, lane);
    if (LEFT_OVER > 0 && lane == LAST % LANES) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
        if (column(batch, r) == N - 1) words[r][LAST / LANES] = load_left_over<LEFT_OVER>(b + (SIZE - LEFT_OVER));
    }
  };
  load(0);

  float* const staged = reinterpret_cast<float*>(shifted);
  for (int i = threadIdx.x; i < M * SHIFTED; i += LANES * GROUPS) {
    const int m = i / SHIFTED, k = i % SHIFTED - before;
    float one[1] = {0.0f};
    if (k >= 0 && k < K) load_elements<1>(one, a + static_cast<size_t>(m) * K + k);
    staged[i] = one[0];
  }
  uint4 mask[STEPS];
#pragma unroll
  for (int step = 0; step < STEPS; ++step) {
    unsigned part[4] = {0, 0, 0, 0};
#pragma unroll
    for (int v = 0; v < VEC; ++v) {
      const int k = (step * LANES + lane) * VEC + v - before;
      if (k >= 0 && k < K) part[v * ITEM_BITS / 32] |= 0xffffffffu >> (32 - ITEM_BITS) << v * ITEM_BITS % 32;
    }
    mask[step] = make_uint4(part[0], part[1], part[2], part[3]);
  }
  __syncthreads();
  float left[M][STEPS][VEC];
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int step = 0; step < STEPS; ++step)
#pragma unroll
      for (int v = 0; v < VEC; v += 4)
        load_vector<4>(left[m][step] + v, staged + m * SHIFTED + (step * LANES + lane) * VEC + v);
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif

#pragma unroll
  for (int batch = 0; batch < AHEAD; ++batch) {
    float sum[ROWS][M];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
      for (int m = 0; m < M; ++m) sum[r][m] = 0.0f;
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
        uint4 word = words[r][step];
        if (is_masked(step))
          word = make_uint4(word.x & mask[step].x, word.y & mask[step].y, word.z & mask[step].z, word.w & mask[step].w);
        float right[VEC];
        load_elements<VEC>(right, reinterpret_cast<const Element*>(&word));
#pragma unroll
        for (int m = 0; m < M; ++m)
#pragma unroll
          for (int v = 0; v < VEC; ++v) sum[r][m] = fmaf(left[m][step][v], right[v], sum[r][m]);
      }
    }
    if (batch + 1 < AHEAD) load(batch + 1);
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int m = 0; m < M; ++m) sum[r][m] = sum_of_lanes(sum[r][m]);
#if LANES > 32
    __shared__ float parts[2][GROUPS][WARPS_A_GROUP][ROWS * M];
    if (lane % 32 == 0) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
#pragma unroll
        for (int m = 0; m < M; ++m) parts[batch % 2][group][lane / 32][r * M + m] = sum[r][m];
    }
    __syncthreads();
#endif
    if (lane != 0) continue;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const int n = column(batch, r);
      if (n >= N) continue;
#pragma unroll
      for (int m = 0; m < M; ++m) {
        float total[1] = {sum[r][m]};
#if LANES > 32
#pragma unroll
        for (int w = 1; w < WARPS_A_GROUP; ++w) total[0] += parts[batch % 2][group][w][r * M + m];
#endif
        const size_t at = static_cast<size_t>(m) * N + n;
#if FOLLOWS
        finish<1>(total, epilogue, n, at);
#endif
        store_elements<1>(out + at, total);
      }
    }
  }
}
