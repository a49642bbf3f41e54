// C[M, N] = A[M, K] B[K, N] of float32 for few rows of A, with B stored as [K, N], bound by loading B. A block computes
// ACROSS * VEC columns over one of SPLIT ranges of K: its ALONG slices take AHEAD neighbouring rows of B in turn, and a
// thread loads VEC columns of those of the next turn while it multiplies. A is staged in shared memory, along K. Lanes of
// a warp, slices of other warps, and the blocks of a cluster add up their sums.
constexpr int COLUMNS = ACROSS * VEC, TURN = ALONG * AHEAD, TURNS = (RANGE + TURN - 1) / TURN;
constexpr int PITCH = TURNS * TURN + 4;  // rows of A start in different banks
constexpr int PARTS = THREADS / (ACROSS < 32 ? 32 : ACROSS);
constexpr int A_STAGED = M * TURNS * TURN, A_AHEAD = A_STAGED < 8 * THREADS ? (A_STAGED + THREADS - 1) / THREADS : 8;

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS) matvec_across(
    const float* __restrict__ a, const float* __restrict__ b, EPILOGUE_PARAMETERS float* __restrict__ c) {
  extern __shared__ float4 shared_memory[];
  float* const left = reinterpret_cast<float*>(shared_memory);
  const int tid = threadIdx.x, lane = tid % ACROSS, slice = tid / ACROSS;
  const int n0 = blockIdx.x * COLUMNS, n = n0 + lane * VEC;
  const int k_begin = blockIdx.z * RANGE, k_end = k_begin + RANGE < K ? k_begin + RANGE : K;
  // Columns out of bounds are those of the last vector, and not written.
  b += n < N ? n : N - VEC;

  float right[2][AHEAD][VEC];
  auto load = [&](float (&to)[AHEAD][VEC], int turn) {
    // Threads of a warp load alike, and all blocks as much of either kind.
    const bool resident = is_resident((blockIdx.z * TURNS + turn) * (THREADS / 32) + tid / 32);
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) {
      const int k = k_begin + turn * TURN + slice * AHEAD + j;
#pragma unroll
      for (int v = 0; v < VEC; ++v) to[j][v] = 0.0f;
      if (k >= k_end) continue;
      const float* const from = b + static_cast<size_t>(k) * N;
      if (resident) load_vector<VEC>(to[j], from);
      else load_evict_first<VEC>(to[j], from);
    }
  };
  load(right[0], 0);

  // Several loads of A are in flight, too.
#pragma unroll 1
  for (int first = tid; first < A_STAGED; first += THREADS * A_AHEAD) {
    float read[A_AHEAD];
#pragma unroll
    for (int j = 0; j < A_AHEAD; ++j) {
      const int i = first + j * THREADS, m = TRANSPOSE_A ? i % M : i / (TURNS * TURN);
      const int k = k_begin + (TRANSPOSE_A ? i / M : i % (TURNS * TURN));
      read[j] = i < A_STAGED && k < k_end ? a[TRANSPOSE_A ? k * M + m : m * K + k] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < A_AHEAD; ++j) {
      const int i = first + j * THREADS, m = TRANSPOSE_A ? i % M : i / (TURNS * TURN);
      if (i < A_STAGED) left[m * PITCH + (TRANSPOSE_A ? i / M : i % (TURNS * TURN))] = read[j];
    }
  }
  __syncthreads();

  float sum[M][VEC];
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int v = 0; v < VEC; ++v) sum[m][v] = 0.0f;
  auto multiply = [&](const float (&of)[AHEAD][VEC], int turn) {
    const float* const from = left + turn * TURN + slice * AHEAD;
#pragma unroll
    for (int j = 0; j < AHEAD; j += 4)
#pragma unroll
      for (int m = 0; m < M; ++m) {
        float four[4];
        load_vector<4>(four, from + m * PITCH + j);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int v = 0; v < VEC; ++v) sum[m][v] = fmaf(four[i], of[j + i][v], sum[m][v]);
      }
  };
#pragma unroll 1
  for (int turn = 0; turn < TURNS; turn += 2) {
    if (turn + 1 < TURNS) load(right[1], turn + 1);
    multiply(right[0], turn);
    if (turn + 1 >= TURNS) break;
    if (turn + 2 < TURNS) load(right[0], turn + 2);
    multiply(right[1], turn + 1);
  }

#pragma unroll
  for (int apart = ACROSS; apart < 32; apart *= 2)
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int v = 0; v < VEC; ++v) sum[m][v] += __shfl_xor_sync(0xffffffffu, sum[m][v], apart);
  __syncthreads();  // sums take the place of A
  float* const parts = left;
  if (ACROSS >= 32 || tid % 32 < ACROSS) {
    const int part = ACROSS < 32 ? tid / 32 : slice;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int v = 0; v < VEC; ++v) parts[(part * M + m) * COLUMNS + lane * VEC + v] = sum[m][v];
  }
  __syncthreads();
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif
  auto total_of = [&](int i) {
    float total = parts[i];
#pragma unroll
    for (int part = 1; part < PARTS; ++part) total += parts[part * M * COLUMNS + i];
    return total;
  };
#if CLUSTER
  for (int i = tid; i < M * COLUMNS; i += THREADS) parts[i] = total_of(i);
  cluster_sync();
  for (int i = blockIdx.z * THREADS + tid; i < M * COLUMNS; i += SPLIT * THREADS) {
    float total[1] = {cluster_sum<SPLIT>(parts + i)};
#else
  for (int i = tid; i < M * COLUMNS; i += THREADS) {
    float total[1] = {total_of(i)};
#endif
    const int column = n0 + i % COLUMNS;
    if (column >= N) continue;
    const size_t at = static_cast<size_t>(i / COLUMNS) * N + column;
#if FOLLOWS
    finish<1>(total, epilogue, column, at);
#endif
    c[at] = total[0];
  }
#if CLUSTER
  cluster_sync();  // no block may exit while another still reads its shared memory
#endif
}
