// How a thread of products multiplies what is in shared memory; gemm_nn.cu tells of tiles and K tiles.
//
// What keeps products of floats from their peak on sm_90 is that a scheduler has nothing to issue: with sums of
// 16 by 8 a thread there are two warps for each, and they wait for operands from shared memory, and for copies
// to read their addresses. So operands are read a step ahead, between multiply-adds, across K tiles as well, and
// a K tile is copied in parts. Then operands of one bank of registers count: one of three is held back from the
// multiply-add before (`multiply_add`), the other two should be of two banks (`keep_apart`).
struct Operands {
  float left[ROWS], right[COLS];
};

__device__ __forceinline__ void read_right(Operands& of, const float* b, int panel) {
  load_vector<N_VEC>(of.right + panel * N_VEC, b + panel * THREADS_N * N_VEC);
}

// Neighbours share an operand, which the second finds where the first had it; lines of them turn where they
// end. They run along the longer side of the sums, and along columns where all that a step needs of A is in
// one bank: a register in four of those that were read along K. Before each line there is a call of before(line).
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

// Sums that are written as vectors would be in registers side by side from the start, as are those of `b`
// that they are multiplied by: in the same bank. So compilers must not know that they are written as they are.
__device__ __forceinline__ void keep_apart(float (&sum)[ROWS][COLS]) {
  const int zero = threadIdx.y;
#pragma unroll
  for (int j = 0; j < ROWS; ++j)
#pragma unroll
    for (int c = 0; c < COLS; ++c) sum[j][c] = __int_as_float(__float_as_int(sum[j][c]) ^ zero);
}

#if TRANSPOSED
// Reads those operands of a step whose turn is before `line` of the step before.
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

// STRAIGHT steps of K at a time are written out: more would take long to compile and gain nothing.
__device__ __forceinline__ void accumulate(
    float (&sum)[ROWS][COLS], const float* a, const float* b) {
#pragma unroll 1
  for (int k = 0; k < STEP; k += STRAIGHT)
    accumulate_straight(sum, a + k / K_TOGETHER * A_GROUP_TO, b + k * B_STEP_TO);
}
