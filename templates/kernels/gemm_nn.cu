// C[M, N] = A[M, K] B[K, N], float32; operands.h says how A and B are stored.
//
// A block owns a tile of THREADS_M * ROWS by THREADS_N * COLS of C and one of SPLIT ranges of K.
// Its threads are THREADS_N x THREADS_M x SLICES; the slices share each staged chunk of
// CHUNK = SLICES * STEP of K among them. A either keeps its order in shared memory and is read K_VEC
// elements along K at a time, or is transposed on the way in, element by element, and read ROW_VEC
// rows at a time: more copies, but fewer registers between a read and its use. An A stored along M is so
// already.
#define FINISHED (FOLLOWS && (SPLIT == 1 || CLUSTER))
constexpr int TILE_M = THREADS_M * ROWS, TILE_N = THREADS_N * COLS;
constexpr int TILE = TILE_M * TILE_N;
constexpr int CHUNK = SLICES * STEP;
constexpr int CHUNKS = (K_PER_SPLIT + CHUNK - 1) / CHUNK;
constexpr int A_FLOATS = (TRANSPOSED ? CHUNK : TILE_M) * A_PITCH, B_FLOATS = CHUNK * B_PITCH;
constexpr int PANELS = COLS / N_VEC;

// Where the extents divide, the tests for the edges are constant and vanish.
constexpr bool WHOLE_M = M % TILE_M == 0, WHOLE_N = N % TILE_N == 0;
constexpr bool WHOLE_K = K_PER_SPLIT * SPLIT == K && K_PER_SPLIT % CHUNK == 0;

__device__ __forceinline__ void stage_a(
    float* dst, const float* __restrict__ a, int m0, int k0, int k_end, int tid) {
#if TRANSPOSE_A
  const float* const from = a + static_cast<size_t>(k0) * M + m0;
  each_vector<CHUNK, TILE_M / A_COPY>(tid, [&](int k, int vector) {
    const int row = vector * A_COPY;
    const bool valid = (WHOLE_M || m0 + row < M) && (WHOLE_K || k0 + k < k_end);
    copy_async<A_COPY>(dst + k * A_PITCH + row, from + static_cast<long long>(k) * M + row, valid);
  });
#else
#if !CONV
  const float* const from = a + static_cast<size_t>(m0) * K + k0;
#endif
  each_vector<TILE_M, CHUNK / A_COPY>(tid, [&](int row, int vector) {
    const int k = vector * A_COPY;
    bool valid = (WHOLE_M || m0 + row < M) && (WHOLE_K || k0 + k < k_end);
    float* const to = TRANSPOSED ? dst + k * A_PITCH + row : dst + row * A_PITCH + k;
#if CONV
    const long long place = window_element(m0 + row, k0 + k, valid);
    copy_async<A_COPY>(to, a + place, valid);
#else
    copy_async<A_COPY>(to, from + static_cast<long long>(row) * K + k, valid);
#endif
  });
#endif
}

__device__ __forceinline__ void stage_b(
    float* dst, const float* __restrict__ b, int n0, int k0, int k_end, int tid) {
#if TRANSPOSE_B  // turned on the way in, element by element
  const float* const from = b + static_cast<size_t>(n0) * K + k0;
  each_vector<TILE_N, CHUNK>(tid, [&](int column, int k) {
    const bool valid = (WHOLE_N || n0 + column < N) && (WHOLE_K || k0 + k < k_end);
    copy_async<1>(dst + k * B_PITCH + column, from + static_cast<long long>(column) * K + k, valid);
  });
#else
  const float* const from = b + static_cast<size_t>(k0) * N + n0;
  each_vector<CHUNK, TILE_N / B_COPY>(tid, [&](int k, int vector) {
    const int column = vector * B_COPY;
    const bool valid = (WHOLE_N || n0 + column < N) && (WHOLE_K || k0 + k < k_end);
    copy_async<B_COPY>(
        dst + k * B_PITCH + column, from + static_cast<long long>(k) * N + column, valid);
  });
#endif
}

// The row of the tile that is a thread's row j.
__device__ __forceinline__ int row_of(int j, int ty) {
  return TRANSPOSED ? (j / ROW_VEC * THREADS_M + ty) * ROW_VEC + j % ROW_VEC : j * THREADS_M + ty;
}

__device__ __forceinline__ void multiply_add(
    float (&sum)[ROWS][COLS], const float (&left)[ROWS], const float* b) {
  float right[COLS];
#pragma unroll
  for (int p = 0; p < PANELS; ++p)
    load_vector<N_VEC>(right + p * N_VEC, b + p * THREADS_N * N_VEC);
#pragma unroll
  for (int j = 0; j < ROWS; ++j)
#pragma unroll
    for (int c = 0; c < COLS; ++c) sum[j][c] = fmaf(left[j], right[c], sum[j][c]);
}

#if TRANSPOSED
__device__ __forceinline__ void accumulate_straight(
    float (&sum)[ROWS][COLS], const float* a, const float* b) {
#pragma unroll
  for (int k = 0; k < STRAIGHT; ++k) {
    float left[ROWS];
#pragma unroll
    for (int j = 0; j < ROWS; j += ROW_VEC)
      load_vector<ROW_VEC>(left + j, a + k * A_PITCH + j * THREADS_M);
    multiply_add(sum, left, b + k * B_PITCH);
  }
}
#else
__device__ __forceinline__ void accumulate_straight(
    float (&sum)[ROWS][COLS], const float* a, const float* b) {
#pragma unroll
  for (int k = 0; k < STRAIGHT; k += K_VEC) {
    float ahead[ROWS][K_VEC];
#pragma unroll
    for (int j = 0; j < ROWS; ++j) load_vector<K_VEC>(ahead[j], a + j * THREADS_M * A_PITCH + k);
#pragma unroll
    for (int v = 0; v < K_VEC; ++v) {
      float left[ROWS];
#pragma unroll
      for (int j = 0; j < ROWS; ++j) left[j] = ahead[j][v];
      multiply_add(sum, left, b + (k + v) * B_PITCH);
    }
  }
}
#endif

// STRAIGHT steps of K at a time are written out: more would take long to compile and gain nothing.
__device__ __forceinline__ void accumulate(
    float (&sum)[ROWS][COLS], const float* a, const float* b) {
#pragma unroll 1
  for (int k = 0; k < STEP; k += STRAIGHT)
    accumulate_straight(sum, a + k * (TRANSPOSED ? A_PITCH : 1), b + k * B_PITCH);
}

__device__ __forceinline__ float sum_slices(const float* partial, int i) {
  float sum = 0.0f;
#pragma unroll
  for (int s = 0; s < SLICES; ++s) sum += partial[s * TILE + i];
  return sum;
}

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS) gemm_nn(
    const float* __restrict__ a, const float* __restrict__ b, REST_PARAMETERS float* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  float* const as = reinterpret_cast<float*>(shared_memory);
  float* const bs = as + STAGES * A_FLOATS;

  const int tid = threadIdx.x;
  const int tx = tid % THREADS_N, ty = tid / THREADS_N % THREADS_M;
  const int slice = tid / (THREADS_N * THREADS_M);
#if TALL
  constexpr int TILES_M = (M + TILE_M - 1) / TILE_M;
  const int m0 = blockIdx.x % TILES_M * TILE_M, n0 = blockIdx.y * TILE_N;
#elif BATCH > 1
  constexpr int TILES_N = (N + TILE_N - 1) / TILE_N;
  const int m0 = blockIdx.y * TILE_M, n0 = blockIdx.x % TILES_N * TILE_N;
#else
  const int m0 = blockIdx.y * TILE_M, n0 = blockIdx.x * TILE_N;
#endif
#if BATCH > 1
  const int which = blockIdx.x / (TALL ? (M + TILE_M - 1) / TILE_M : (N + TILE_N - 1) / TILE_N);
  a += static_cast<size_t>(which) * A_STRIDE;
  b += static_cast<size_t>(which) * B_STRIDE;
  out += static_cast<size_t>(which) * M * N;
#endif
#if FINISHED
  Rest rest = {bias, residual, scale, shift};
#if BATCH > 1 && RESIDUAL
  rest.residual += static_cast<size_t>(which) * M * N;
#endif
#endif
  const int k_begin = blockIdx.z * K_PER_SPLIT;
  const int k_end = k_begin + K_PER_SPLIT < K ? k_begin + K_PER_SPLIT : K;

  auto stage = [&](int chunk, int slot) {
    const int k0 = k_begin + chunk * CHUNK;
    if (chunk < CHUNKS) {
      stage_a(as + slot * A_FLOATS, a, m0, k0, k_end, tid);
      stage_b(bs + slot * B_FLOATS, b, n0, k0, k_end, tid);
    }
    copy_commit();
  };

  float sum[ROWS][COLS];
#pragma unroll
  for (int j = 0; j < ROWS; ++j)
#pragma unroll
    for (int c = 0; c < COLS; ++c) sum[j][c] = 0.0f;

  const float* const left =
      TRANSPOSED ? as + slice * STEP * A_PITCH + ty * ROW_VEC : as + ty * A_PITCH + slice * STEP;
  const float* const right = bs + slice * STEP * B_PITCH + tx * N_VEC;
  // The first STAGES - 1 chunks are staged by the loop as well: code that exists once compiles fast.
  int slot = 0, free_slot = 0;
#pragma unroll 1
  for (int chunk = 1 - STAGES; chunk < CHUNKS; ++chunk) {
    if (STAGES == 1) {
      __syncthreads();
      stage(chunk, 0);
      copy_wait<0>();
      __syncthreads();
    } else {
      if (chunk >= 0) {
        copy_wait<(STAGES > 1 ? STAGES - 2 : 0)>();
        __syncthreads();
      }
      stage(chunk + STAGES - 1, free_slot);
      free_slot = free_slot + 1 == STAGES ? 0 : free_slot + 1;
      if (chunk < 0) continue;
    }
    accumulate(sum, left + slot * A_FLOATS, right + slot * B_FLOATS);
    slot = slot + 1 == STAGES ? 0 : slot + 1;
  }

#if !CLUSTER
  out += static_cast<size_t>(blockIdx.z) * BATCH * M * N;
#endif
#if SLICES == 1 && !CLUSTER
#pragma unroll
  for (int j = 0; j < ROWS; ++j) {
    const int m = m0 + row_of(j, ty);
#pragma unroll
    for (int p = 0; p < PANELS; ++p) {
      const int n = n0 + (p * THREADS_N + tx) * N_VEC;
      const size_t at = static_cast<size_t>(m) * N + n;
      float* const to = out + at;
      if (m < M && n < N && N % N_VEC == 0) {
#if FINISHED
        float values[N_VEC];
#pragma unroll
        for (int v = 0; v < N_VEC; ++v) values[v] = sum[j][p * N_VEC + v];
        finish<1>(values, rest, n, at);
        store_vector<(N % N_VEC == 0 ? N_VEC : 1)>(to, values);
#else
        store_vector<(N % N_VEC == 0 ? N_VEC : 1)>(to, sum[j] + p * N_VEC);
#endif
      } else if (m < M) {
#pragma unroll
        for (int v = 0; v < N_VEC; ++v) {
          if (n + v >= N) continue;
#if FINISHED
          float value[1] = {sum[j][p * N_VEC + v]};
          finish<1>(value, rest, n + v, at + v);
          to[v] = value[0];
#else
          to[v] = sum[j][p * N_VEC + v];
#endif
        }
      }
    }
  }
#else
  copy_wait<0>();
  __syncthreads();
  float* const partial = as;
#pragma unroll
  for (int j = 0; j < ROWS; ++j)
#pragma unroll
    for (int p = 0; p < PANELS; ++p)
      store_vector<N_VEC>(
          partial + slice * TILE + row_of(j, ty) * TILE_N + (p * THREADS_N + tx) * N_VEC,
          sum[j] + p * N_VEC);
  __syncthreads();
#if CLUSTER
#pragma unroll 1
  for (int i = tid; i < TILE; i += THREADS) partial[i] = sum_slices(partial, i);
  cluster_sync();
#pragma unroll 1
  for (int i = blockIdx.z * THREADS + tid; i < TILE; i += SPLIT * THREADS) {
    float total[1] = {cluster_sum<SPLIT>(partial + i)};
#else
#pragma unroll 1
  for (int i = tid; i < TILE; i += THREADS) {
    float total[1] = {sum_slices(partial, i)};
#endif
    const int m = m0 + i / TILE_N, n = n0 + i % TILE_N;
    if (m >= M || n >= N) continue;
    const size_t at = static_cast<size_t>(m) * N + n;
#if FINISHED
    finish<1>(total, rest, n, at);
#endif
    out[at] = total[0];
  }
#if CLUSTER
  cluster_sync();  // no block may leave while another still reads its shared memory
#endif
#endif
}

#if SPLIT > 1 && !CLUSTER
extern "C" __global__ void __launch_bounds__(128) gemm_nn_reduce(
    const float* __restrict__ partial, REST_PARAMETERS float* __restrict__ out) {
  constexpr size_t SIZE = static_cast<size_t>(BATCH) * M * N;
  const size_t i = (static_cast<size_t>(blockIdx.x) * 128 + threadIdx.x) * R_VEC;
  if (i >= SIZE) return;
  float total[R_VEC];
  add_parts<SPLIT>(total, partial + i, SIZE);
#if FOLLOWS
  const Rest rest = {bias, residual, scale, shift};
  finish<1>(total, rest, static_cast<int>(i % N), i);
#endif
  store_vector<R_VEC>(out + i, total);
}
#endif
