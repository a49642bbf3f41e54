// C[M, N] = A[M, K] B[K, N] for few rows of A, with B stored as [N, K], bound by loading B. A group of LANES threads
// computes ROWS columns of C: it loads each element of B once, in coalesced vectors of VEC, and uses it for all M rows
// of A, which come from the cache. AHEAD vectors of each column are loaded before they are multiplied. Lanes share the
// sums of a group while they add them up: each step halves the sums that a lane has. BOUNDS are the threads of a block,
// and of up to eight rows the blocks that a multiprocessor has at least, or nvcc loads vectors of A in turns.
constexpr int WIDTH = LANES < 32 ? LANES : 32, RUN = LANES * VEC, STEPS = (K + RUN - 1) / RUN, SUMS = ROWS * M;
#if LANES > 32
constexpr int WARPS_A_GROUP = LANES / 32;
#endif

template <bool RESIDENT_HERE>
__device__ __forceinline__ void load_weights(float (&to)[VEC], const Element* from) {
  if (RESIDENT_HERE) {
    load_elements<VEC>(to, from);
  } else {
    alignas(16) Element read[VEC];
    load_evict_first<VEC>(read, from);
    load_elements<VEC>(to, read);
  }
}

// Adds up the products of a lane along K.
template <bool RESIDENT_HERE>
__device__ __forceinline__ void add_products(
    float (&sum)[SUMS], const Element* __restrict__ a, const Element* const (&rows)[ROWS], int lane) {
#pragma unroll 1
  for (int step = 0; step < STEPS; step += AHEAD) {
    float right[AHEAD][ROWS][VEC], left[VEC];
    const int first = step * RUN + lane * VEC;
#pragma unroll
    for (int j = 0; j < AHEAD; ++j)
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
        if (K % (RUN * AHEAD) == 0 || first + j * RUN < K) load_weights<RESIDENT_HERE>(right[j][r], rows[r] + first + j * RUN);
#pragma unroll
    for (int j = 0; j < AHEAD; ++j) {
      if (K % (RUN * AHEAD) > 0 && first + j * RUN >= K) continue;
#pragma unroll
      for (int m = 0; m < M; ++m) {
        load_elements<VEC>(left, a + static_cast<size_t>(m) * K + first + j * RUN);
#pragma unroll
        for (int r = 0; r < ROWS; ++r)
#pragma unroll
          for (int v = 0; v < VEC; ++v) sum[r * M + m] = fmaf(left[v], right[j][r][v], sum[r * M + m]);
      }
    }
  }
}

// Adds up COUNT sums of lanes up to APART apart. A lane whose bit APART is set keeps the second half, and sets `at`, the
// sum that its first one is, and `count`, how many are none beyond them.
template <int COUNT, int APART>
struct SumOfLanes {
  __device__ __forceinline__ static void add(float* sum, int lane, int& at, int& count) {
    constexpr int HALF = (COUNT + 1) / 2;
    const bool second = lane & APART;
#pragma unroll
    for (int i = 0; i < HALF; ++i) {
      const float low = sum[i], high = HALF + i < COUNT ? sum[HALF + i] : 0.0f;
      sum[i] = (second ? high : low) + __shfl_xor_sync(0xffffffffu, second ? low : high, APART);
    }
    at += second ? HALF : 0;
    count = second ? count - HALF : count < HALF ? count : HALF;
    SumOfLanes<HALF, APART / 2>::add(sum, lane, at, count);
  }
};
// One sum is added up for all lanes, of which the first has it.
template <int APART>
struct SumOfLanes<1, APART> {
  __device__ __forceinline__ static void add(float* sum, int lane, int& at, int& count) {
    sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], APART);
    if (lane & APART) count = 0;
    SumOfLanes<1, APART / 2>::add(sum, lane, at, count);
  }
};
template <int COUNT>
struct SumOfLanes<COUNT, 0> {
  __device__ __forceinline__ static void add(float*, int, int&, int&) {}
};
template <>
struct SumOfLanes<1, 0> {
  __device__ __forceinline__ static void add(float*, int, int&, int&) {}
};

extern "C" __global__ void __launch_bounds__(BOUNDS) matvec(
    const Element* __restrict__ a, const Element* __restrict__ b,
    EPILOGUE_PARAMETERS Element* __restrict__ out) {
  const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
  const int n0 = (blockIdx.x * GROUPS + group) * ROWS;
  const Element* rows[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r)  // columns out of bounds are clamped to the last, and not written
    rows[r] = b + static_cast<size_t>(n0 + r < N ? n0 + r : N - 1) * K;

  float sum[SUMS];
#pragma unroll
  for (int i = 0; i < SUMS; ++i) sum[i] = 0.0f;

  // Threads of a warp load alike.
  if (is_resident((blockIdx.x * (LANES * GROUPS) + threadIdx.x) / (LANES < 32 ? 32 : LANES)))
    add_products<true>(sum, a, rows, lane);
  else
    add_products<false>(sum, a, rows, lane);

#if FOLLOWS
  const EpilogueArgs epilogue = {bias, residual, scale, shift};
#endif
  auto write = [&](float number, int i) {
    const int n = n0 + i / M;
    if (n >= N) return;
    float total[1] = {number};
    const size_t at = static_cast<size_t>(i % M) * N + n;
#if FOLLOWS
    finish<1>(total, epilogue, n, at);
#endif
    store_elements<1>(out + at, total);
  };
  int at = 0, count = SUMS;
  SumOfLanes<SUMS, WIDTH / 2>::add(sum, lane, at, count);
  // Of more sums than lanes each has several.
  constexpr int EACH = (SUMS + WIDTH - 1) / WIDTH;
#if LANES > 32
  __shared__ float parts[GROUPS][WARPS_A_GROUP][SUMS];
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (i < count) parts[group][lane / 32][at + i] = sum[i];
  __syncthreads();
  for (int i = lane; i < SUMS; i += LANES) {
    float total = parts[group][0][i];
#pragma unroll
    for (int w = 1; w < WARPS_A_GROUP; ++w) total += parts[group][w][i];
    write(total, i);
  }
#else
#pragma unroll
  for (int i = 0; i < EACH; ++i)
    if (i < count) write(sum[i], at + i);
#endif
}
