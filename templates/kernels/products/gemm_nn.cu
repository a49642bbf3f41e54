// GEMM by fmaf: C[M, N] = A[M, K] B[K, N] of float32; operands.h says how A and B are stored.
//
// A block computes a tile of THREADS_M * ROWS by THREADS_N * COLS of C over one of SPLIT ranges of K. Its threads are
// THREADS_N x THREADS_M x SLICES: a thread has ROWS x COLS accumulators, and the slices split each K tile of CHUNK =
// SLICES * STEP (split-K within the block). K tiles pass through a pipeline of STAGES stages in shared memory. A either
// keeps its layout there and is loaded K_VEC elements along K at a time, or is TRANSPOSED when it is copied, element by
// element, and loaded ROW_VEC rows at a time: more copies, but fewer registers between a load and its use. An A stored
// as [K, M] is transposed already.
//
// There are three main loops: AHEAD loads the operands of a step one step ahead, STREAMED loads A row by row and B four
// steps ahead (both software-pipelined, see gemm_nn_mainloop.h), and the plain one loads operands before each step.
// With CLUSTER the blocks of a split reduce through distributed shared memory, else `gemm_nn_reduce` does.
#define FINISHED (FOLLOWS && (SPLIT == 1 || CLUSTER))

// The row of the tile that is a thread's row j.
__device__ __forceinline__ int row_of(int j, int ty) {
  return TRANSPOSED ? (j / ROW_VEC * THREADS_M + ty) * ROW_VEC + j % ROW_VEC : j * THREADS_M + ty;
}

__device__ __forceinline__ float sum_slices(const float* partial, int i) {
  float sum = 0.0f;
#pragma unroll
  for (int s = 0; s < SLICES; ++s) sum += partial[s * TILE + i];
  return sum;
}

extern "C" __global__ void CLUSTER_SHAPE __launch_bounds__(THREADS, TOGETHER) gemm_nn(
    const float* __restrict__ a, const float* __restrict__ b, EPILOGUE_PARAMETERS float* __restrict__ out) {
  extern __shared__ float4 shared_memory[];
  float* const as = reinterpret_cast<float*>(shared_memory);
  float* const bs = as + A_FLOATS;

  const int tid = threadIdx.x;
  const int lane = tid % (LANES_M * LANES_N), group = tid / (LANES_M * LANES_N);
  const int tx = group % (THREADS_N / LANES_N) * LANES_N + lane % LANES_N;
  const int ty = group / (THREADS_N / LANES_N) % (THREADS_M / LANES_M) * LANES_M + lane / LANES_N;
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
  out += static_cast<size_t>(which) * (IN_GROUPS ? N : static_cast<size_t>(M) * N);
#endif
#if FINISHED
  EpilogueArgs epilogue = {bias, residual, scale, shift};
#ifdef GROUPED
  epilogue = of_group(epilogue, which);
#elif BATCH > 1 && RESIDUAL
  epilogue.residual += static_cast<size_t>(which) * M * N;
#endif
#endif
  const int k_begin = blockIdx.z * K_PER_SPLIT;
  const int k_end = k_begin + K_PER_SPLIT < K ? k_begin + K_PER_SPLIT : K;

  const int a_row = CopiesA::first_row(tid), a_vector = CopiesA::first_vector(tid);
  const int b_row = CopiesB::first_row(tid), b_vector = CopiesB::first_vector(tid);
  a += a_row * A_ROW;
#if !CONV
  a += a_vector * A_VECTOR;
  a += TRANSPOSE_A ? static_cast<size_t>(k_begin) * M + m0 : static_cast<size_t>(m0) * K + k_begin;
#endif
  b += b_row * B_ROW + b_vector * B_VECTOR;
  b += TRANSPOSE_B ? static_cast<size_t>(n0) * K + k_begin : static_cast<size_t>(k_begin) * ALL_N + n0;
  float* const a_to = as + (a_row * A_ROW_TO + a_vector * A_VECTOR_TO);
  // Where rows of B are permuted, the offset of each copy is computed where it is issued.
  const int b_across = TRANSPOSE_B ? b_row : b_vector * B_VECTOR_TO, b_along = TRANSPOSE_B ? b_vector : b_row;
  float* const b_to = bs + (b_across + (PERMUTED ? 0 : b_along * B_PITCH));
  // Offset of the stage that is filled next, in floats.
  constexpr int STAGES_FLOATS = STAGES * STAGE_FLOATS;
  int staged = 0, stage_write = 0;
  auto stage_part = [&](int part) {
    const int k0 = k_begin + staged * CHUNK;
    const bool exists = !(AHEAD || STREAMED) || staged < K_TILES;
    stage_a(a_to + stage_write, a, m0, k0, k_end, exists, tid, part);
    stage_b(b_to + stage_write, b, n0, k0, k_end, exists, tid, part);
    if (part + 1 < PARTS) return;
    copy_commit();
    ++staged;
    if (!CONV) a += TRANSPOSE_A ? CHUNK * static_cast<size_t>(M) : CHUNK;
    b += TRANSPOSE_B ? CHUNK : CHUNK * static_cast<size_t>(ALL_N);
    stage_write = stage_write == STAGES_FLOATS - STAGE_FLOATS ? 0 : stage_write + STAGE_FLOATS;
  };
  auto stage = [&]() {
    if (AHEAD || STREAMED || staged < K_TILES) {
#pragma unroll
      for (int part = 0; part < PARTS; ++part) stage_part(part);
    } else {
      copy_commit();
    }
  };

  float sum[ROWS][COLS];
#pragma unroll
  for (int j = 0; j < ROWS; ++j)
#pragma unroll
    for (int c = 0; c < COLS; ++c) sum[j][c] = 0.0f;

  const float* const left =
      TRANSPOSED ? as + slice * A_PITCH + ty * ROW_VEC : as + ty * A_PITCH + slice * K_TOGETHER;
  const float* const right = bs + slice * B_PITCH + tx * N_VEC;
  int stage_read = 0;
  auto advance = [&]() { stage_read = stage_read == STAGES_FLOATS - STAGE_FLOATS ? 0 : stage_read + STAGE_FLOATS; };
#if AHEAD
#pragma unroll 1
  for (int k_tile = 1; k_tile < STAGES; ++k_tile) stage();
  copy_wait<STAGES - 2>();
  __syncthreads();
  Operands of[2];
  read(of[0], left, right);
#pragma unroll 1
  for (int k_tile = 0; k_tile < K_TILES; ++k_tile) {
    const float *a_next = left + stage_read, *b_next = right + stage_read;
#pragma unroll 1
    for (int begin = 0; begin < STEP; begin += STRAIGHT) {
#pragma unroll
      for (int k = 0; k < STRAIGHT; ++k) {
        a_next += A_GROUP_TO, b_next += B_STEP_TO;
        if (k + 1 == STRAIGHT && begin + STRAIGHT == STEP) {
          copy_wait<STAGES - 2>();
          __syncthreads();
          advance();
          a_next = left + stage_read, b_next = right + stage_read;
        }
        multiply_add(sum, of[k % 2], [&](int line) {
          read(of[(k + 1) % 2], a_next, b_next, line);
          if (line == 0 && begin == 0 && k % (STRAIGHT / PARTS) == 0) stage_part(k / (STRAIGHT / PARTS));
        });
      }
    }
  }
#elif STREAMED
#pragma unroll 1
  for (int k_tile = 1; k_tile < STAGES; ++k_tile) stage();
  copy_wait<STAGES - 2>();
  __syncthreads();
  constexpr int DEPTH = 4, GROUPS = STEP / 4, QUADS = 4 * PANELS;
  float row[DEPTH][4];
  Operands of[2][4];
#pragma unroll
  for (int i = 0; i < QUADS; ++i) read_right(of[0][i / PANELS], right + i / PANELS * B_STEP_TO, i % PANELS);
#pragma unroll
  for (int j = 0; j + 1 < DEPTH; ++j) load_vector<4>(row[j], left + j * THREADS_M * A_PITCH);
  int before = 0;
#pragma unroll 1
  for (int k_tile = 0; k_tile < K_TILES; ++k_tile) {
#pragma unroll
    for (int line = 0; line < GROUPS * ROWS; ++line) {
      const int group = line / ROWS, j = line % ROWS;
      if (line == (GROUPS - 1) * ROWS) {
        copy_wait<(STAGES > 2 ? STAGES - 3 : 0)>();
        __syncthreads();
        before = stage_read;
        advance();
      }
      const int ahead = line + DEPTH - 1, last = ahead < GROUPS * ROWS && group == GROUPS - 1;
      load_vector<4>(
          row[ahead % DEPTH], left + (last ? before : stage_read) +
                                  ahead % ROWS * THREADS_M * A_PITCH + ahead / ROWS % GROUPS * A_GROUP_TO);
#pragma unroll
      for (int i = 0; i < QUADS; ++i)
        if (i * ROWS / QUADS == j)
          read_right(
              of[(group + 1) % 2][i / PANELS],
              right + stage_read + ((group + 1) % GROUPS * 4 + i / PANELS) * B_STEP_TO, i % PANELS);
      if (group == GROUPS - 1 && j % (ROWS / PARTS) == 0) stage_part(j / (ROWS / PARTS));
#pragma unroll
      for (int v = 0; v < 4; ++v)
#pragma unroll
        for (int i = 0; i < COLS; ++i) {
          const int c = v % 2 ? COLS - 1 - i : i;
          sum[j][c] = fmaf(row[line % DEPTH][v], of[group % 2][v].right[c], sum[j][c]);
        }
    }
  }
#else
  // The loop runs the prologue too, the first STAGES - 1 K tiles, since less code compiles faster.
#pragma unroll 1
  for (int k_tile = 1 - STAGES; k_tile < K_TILES; ++k_tile) {
    if (STAGES == 1) {
      __syncthreads();
      stage();
      copy_wait<0>();
      __syncthreads();
    } else {
      if (k_tile >= 0) {
        copy_wait<(STAGES > 1 ? STAGES - 2 : 0)>();
        __syncthreads();
      }
      stage();
      if (k_tile < 0) continue;
    }
    accumulate(sum, left + stage_read, right + stage_read);
    advance();
  }
#endif
  keep_apart(sum);

#if !CLUSTER
  out += static_cast<size_t>(blockIdx.z) * BATCH * M * N;
#endif
#if SLICES == 1 && !CLUSTER && N % N_VEC == 0
#pragma unroll
  for (int j = 0; j < ROWS; ++j) {
    const int m = m0 + row_of(j, ty);
#pragma unroll
    for (int p = 0; p < PANELS; ++p) {
      const int n = n0 + (p * THREADS_N + tx) * N_VEC;
      const size_t at = static_cast<size_t>(m) * ALL_N + n;
      if (m >= M || n >= N) continue;
#if FINISHED
      float values[N_VEC];
#pragma unroll
      for (int v = 0; v < N_VEC; ++v) values[v] = sum[j][p * N_VEC + v];
      finish<1>(values, epilogue, n, at);
      store_vector<N_VEC>(out + at, values);
#else
      store_vector<N_VEC>(out + at, sum[j] + p * N_VEC);
#endif
    }
  }
#else  // through shared memory, so that stores are coalesced where rows of C are not aligned to vectors too
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
    const size_t at = static_cast<size_t>(m) * ALL_N + n;
#if FINISHED
    finish<1>(total, epilogue, n, at);
#endif
    out[at] = total[0];
  }
#if CLUSTER
  cluster_sync();  // no block may exit while another still reads its shared memory
#endif
#endif
}

#if SPLIT > 1 && !CLUSTER
extern "C" __global__ void __launch_bounds__(128) gemm_nn_reduce(
    const float* __restrict__ partial, EPILOGUE_PARAMETERS float* __restrict__ out) {
  constexpr size_t SIZE = static_cast<size_t>(BATCH) * M * N;
  const size_t i = (static_cast<size_t>(blockIdx.x) * 128 + threadIdx.x) * R_VEC;
  if (i >= SIZE) return;
  float total[R_VEC];
  add_parts<SPLIT>(total, partial + i, SIZE);
#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
  finish<1>(total, epilogue, static_cast<int>(i % ALL_N), i);
#endif
  store_vector<R_VEC>(out + i, total);
}
#endif
