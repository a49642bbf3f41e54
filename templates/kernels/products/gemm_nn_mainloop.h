// Main loop of gemm_nn.cu: how a thread multiplies operands in shared memory.
//
// What keeps GEMM by fmaf from its peak on sm_90 are issue slots without an eligible warp: with 16 x 8 accumulators a
// thread, a scheduler has two warps, which stall on loads from shared memory and on the address operands of cp.async.
// So operands are loaded a step ahead, between multiply-adds and across K tiles too, and a K tile is copied in parts.
// After that register bank conflicts matter: one of the three operands comes from the reuse cache of the multiply-add
// before (`multiply_add`), the other two should be in different banks (`keep_apart`).
struct Operands {
  float left[ROWS], right[COLS];
};

__device__ __forceinline__ void read_right(Operands& of, const float* b, int panel) {
  load_vector<N_VEC>(of.right + panel * N_VEC, b + panel * THREADS_N * N_VEC);
}

// Consecutive multiply-adds share an operand, which the second takes from the reuse cache; lines of them run back and
// forth (boustrophedon). They run along the longer side of the accumulators, and along columns where all operands of A
// of a step are in one bank: every fourth register of those that were loaded along K. before(line) is called before
// each line.
constexpr bool ALONG_N = !TRANSPOSED || COLS >= 4 || ROWS < COLS;
constexpr int LINES = ALONG_N ? ROWS : COLS, LINE = ALONG_N ? COLS : ROWS;

template <class Before>
__device__ __forceinline__ void multiply_add(
    float (&sum)[ROWS][COLS], const Operands& of, Before before) {
#pragma unroll
  for (int line = 0; line < LINES; ++line) {
    before(line);
#pragma unroll
    for (int i = 0; i < LINE; ++i) {
      const int along = line % 2 ? LINE - 1 - i : i;
      const int j = ALONG_N ? line : along, c = ALONG_N ? along : line;
      sum[j][c] = fmaf(of.left[j], of.right[c], sum[j][c]);
    }
  }
}

// Accumulators that are stored as vectors would be allocated to consecutive registers, as are the operands of B, and so
// to the same banks. The XOR with a zero that the compiler does not know of separates them from what is stored.
__device__ __forceinline__ void keep_apart(float (&sum)[ROWS][COLS]) {
  const int zero = threadIdx.y;
#pragma unroll
  for (int j = 0; j < ROWS; ++j)
#pragma unroll
    for (int c = 0; c < COLS; ++c) sum[j][c] = __int_as_float(__float_as_int(sum[j][c]) ^ zero);
}

#if TRANSPOSED
// Loads the operands of a step that are scheduled before `line` of the previous step.
__device__ __forceinline__ void read(Operands& of, const float* a, const float* b, int line) {
  constexpr int LOADS = PANELS + ROWS / ROW_VEC;
#pragma unroll
  for (int i = 0; i < LOADS; ++i) {
    if (i * LINES / LOADS != line) continue;
    const int j = (i - PANELS) * ROW_VEC;
    if (i < PANELS) read_right(of, b, i);
    else load_vector<ROW_VEC>(of.left + (j < 0 ? 0 : j), a + j * THREADS_M);
  }
}

__device__ __forceinline__ void read(Operands& of, const float* a, const float* b) {
#pragma unroll
  for (int line = 0; line < LINES; ++line) read(of, a, b, line);
}

__device__ __forceinline__ void accumulate_straight(
    float (&sum)[ROWS][COLS], const float* a, const float* b) {
#pragma unroll
  for (int k = 0; k < STRAIGHT; ++k) {
    Operands of;
    read(of, a + k * A_GROUP_TO, b + k * B_STEP_TO);
    multiply_add(sum, of, [](int) {});
  }
}
#else
__device__ __forceinline__ void accumulate_straight(
    float (&sum)[ROWS][COLS], const float* a, const float* b) {
#pragma unroll
  for (int k = 0; k < STRAIGHT; k += K_VEC) {
    float ahead[ROWS][K_VEC];
#pragma unroll
    for (int j = 0; j < ROWS; ++j) load_vector<K_VEC>(ahead[j], a + j * THREADS_M * A_PITCH + k / K_VEC * A_GROUP_TO);
#pragma unroll
    for (int v = 0; v < K_VEC; ++v) {
      Operands of;
#pragma unroll
      for (int j = 0; j < ROWS; ++j) of.left[j] = ahead[j][v];
#pragma unroll
      for (int p = 0; p < PANELS; ++p) read_right(of, b + (k + v) * B_STEP_TO, p);
      multiply_add(sum, of, [](int) {});
    }
  }
}
#endif

// STRAIGHT steps at a time are unrolled: more would take long to compile and gain nothing.
__device__ __forceinline__ void accumulate(
    float (&sum)[ROWS][COLS], const float* a, const float* b) {
#pragma unroll 1
  for (int k = 0; k < STEP; k += STRAIGHT)
    accumulate_straight(sum, a + k / K_TOGETHER * A_GROUP_TO, b + k * B_STEP_TO);
}
