// Epilogue of gemm_wgmma.cu, and its reduction of split-K in a cluster.
#if TF32
typedef float Finished;
#else
typedef half_bits Finished;
#endif

#if FOLLOWS
#define FINISH(low, high, n, at) \
  finish_pair(low, high, epilogue, n, at), low = last_step(low), high = last_step(high)
#else
#define FINISH(low, high, n, at) (void)(n)
#endif

// Writes a thread's part, words j to j + 7, of 32 columns of row `m`. Where rows are aligned to 16 bytes, four threads
// that hold the columns in pairs exchange them and write 16 bytes each, whole sectors together. Rows and columns beyond
// C are clamped to the last: without branches a thread computes all of its columns at once, instead of waiting for each
// exponential and reciprocal.
__device__ __forceinline__ void write_unit(
    Finished* __restrict__ out, float (&sum)[WORDS], int half, int j, int m, int n0, int lane, const EpilogueArgs& epilogue) {
  constexpr int LAST_COLUMN = C_N % 2 ? C_N - 1 : C_N - 2;
  const size_t row = static_cast<size_t>(WHOLE_ROWS || m < C_M ? m : C_M - 1) * C_N;
#pragma unroll
  for (int i = j; i < j + 4; ++i) {
    const int n = n0 + i * 8 + lane % 4 * 2, column = WHOLE_COLUMNS || n < LAST_COLUMN ? n : LAST_COLUMN;
    FINISH(sum[i * 4 + half * 2], sum[i * 4 + half * 2 + 1], column, row + column);
  }
  const bool exists = WHOLE_ROWS || m < C_M;
#if C_N % 8 == 0 && !TF32
  unsigned word[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    word[i] = pack_pair(sum[(j + i) * 4 + half * 2], sum[(j + i) * 4 + half * 2 + 1]);
  transpose_four(word, lane);
  const int n = n0 + (j + lane % 4) * 8;
  if (exists && (WHOLE_COLUMNS || n < C_N))
    *reinterpret_cast<uint4*>(out + row + n) = make_uint4(word[0], word[1], word[2], word[3]);
#elif C_N % 2 && !TF32
  // In rows that are not aligned to a word, a word is a thread's second element and the next thread's first.
  const int between = reinterpret_cast<size_t>(out + row) / 2 % 2;
#pragma unroll
  for (int i = j; i < j + 4; ++i) {
    const float low = sum[i * 4 + half * 2], high = sum[i * 4 + half * 2 + 1];
    const float given = lane % 4 == 0 && i < j + 3 ? sum[(i < j + 3 ? i + 1 : i) * 4 + half * 2] : low;
    const float next = __shfl_sync(0xffffffffu, given, (lane & ~3) | ((lane + 1) & 3));
    const unsigned word = between ? pack_pair(high, next) : pack_pair(low, high);
    const int first = n0 + i * 8 + lane % 4 * 2, n = first + between;
    const bool both = n + 1 < C_N && !(between && i == j + 3 && lane % 4 == 3);
    if (exists && both) *reinterpret_cast<unsigned*>(out + row + n) = word;
    if (exists && !both && n < C_N) out[row + n] = static_cast<half_bits>(word);
    if (exists && between && i == j && lane % 4 == 0 && first < C_N)
      out[row + first] = static_cast<half_bits>(pack_pair(low, low));
  }
#else
#pragma unroll
  for (int i = j; i < j + 4; ++i) {
    const int n = n0 + i * 8 + lane % 4 * 2;
    if (exists && (WHOLE_COLUMNS || n < C_N))
      write_pair(out, row + n, n, sum[i * 4 + half * 2], sum[i * 4 + half * 2 + 1]);
  }
#endif
}

// Writes the units that the block of rank `own` reduces; `row` is the thread's first.
__device__ __forceinline__ void write_units(
    Finished* __restrict__ out, float (&sum)[FRAGS_M][WORDS], int own, int row, int n0, int lane, const EpilogueArgs& epilogue) {
#pragma unroll
  for (int u = own * SHARE; u < (own + 1) * SHARE; ++u) {
    const int i = u / (TILE_N / 16), half = u / (TILE_N / 32) % 2, j = u % (TILE_N / 32) * 4;
    write_unit(out, sum[i], half, j, row + i * 64 + half * 8, n0, lane, epilogue);
  }
}

#if SPLIT > 1
// Split-K in a cluster: a thread sends the accumulators that others reduce to their shared memory, where the thread of
// the same index adds them to its own.
constexpr int ADDERS = GROUPS * 128, PART_BYTES = (SPLIT - 1) * SHARE * 32 * ADDERS;

__device__ __forceinline__ void send_parts(
    const float (&sum)[FRAGS_M][WORDS], unsigned received, unsigned sent, int rank, int tid) {
#pragma unroll
  for (int to = 0; to < SPLIT; ++to) {
    if (to == rank) continue;
    const unsigned sender = (rank - to - 1 + SPLIT) % SPLIT;
    const unsigned barrier = remote_address(sent, to);
    const unsigned address = remote_address(received, to) + (sender * SHARE * 2 * ADDERS + tid) * 16;
#pragma unroll
    for (int v = 0; v < SHARE * 2; ++v) {
      const int u = to * SHARE + v / 2, i = u / (TILE_N / 16), half = u / (TILE_N / 32) % 2;
      const int j = u % (TILE_N / 32) * 4 + v % 2 * 2;
      send(address + v * ADDERS * 16, barrier, sum[i][j * 4 + half * 2], sum[i][j * 4 + half * 2 + 1],
           sum[i][j * 4 + 4 + half * 2], sum[i][j * 4 + 5 + half * 2]);
    }
  }
}

__device__ __forceinline__ void add_parts_of_others(
    float (&sum)[FRAGS_M][WORDS], const float* received, int own, int tid) {
#pragma unroll
  for (int sender = 0; sender < SPLIT - 1; ++sender)
#pragma unroll
    for (int v = 0; v < SHARE * 2; ++v) {
      const int u = own * SHARE + v / 2, i = u / (TILE_N / 16), half = u / (TILE_N / 32) % 2;
      const int j = u % (TILE_N / 32) * 4 + v % 2 * 2;
      float part[4];
      load_vector<4>(part, received + ((sender * SHARE * 2 + v) * ADDERS + tid) * 4);
      sum[i][j * 4 + half * 2] += part[0], sum[i][j * 4 + half * 2 + 1] += part[1];
      sum[i][j * 4 + 4 + half * 2] += part[2], sum[i][j * 4 + 5 + half * 2] += part[3];
    }
}
#endif
