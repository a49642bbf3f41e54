// Epilogue of gemm_tma.cu, and of gemm_tma_reduce.cu.
#if FOLLOWS
#define FINISH(low, high, n, at) \
  finish_pair(low, high, epilogue, n, at), low = last_step(low), high = last_step(high)
#else
#define FINISH(low, high, n, at)
#endif

// The epilogue of a value that is written through shared memory: scale and activation.
__device__ __forceinline__ float scale_and_activate(float x) {
#ifdef ALPHA
  x *= ALPHA;
#endif
  return last_step(x);
}

#if !TF32 && !INT8
// Stores the accumulators of 16 rows and 8 or, with `two`, 16 columns as 16-bit floats (stmatrix): lanes 0 to 15 pass the
// addresses of the rows, the others those of the rows' second 8 columns.
__device__ __forceinline__ void store_fragments(unsigned row, const float* sum, bool two) {
#ifdef AUTOTUNE_EMULATE
  const int lane = threadIdx.x % 32;
  for (int v = 0; v < (two ? 8 : 4); ++v) {
    const int from = v / 4 * 16 + v / 2 % 2 * 8 + lane / 4;
    const unsigned to = __shfl_sync(0xffffffffu, row, from);
    static_cast<half_bits*>(__cvta_shared_to_generic(to))[lane % 4 * 2 + v % 2] = bits_of(sum[v]);
  }
#else
  if (two)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
                 "r"(pack_pair(sum[0], sum[1])), "r"(pack_pair(sum[2], sum[3])), "r"(pack_pair(sum[4], sum[5])),
                 "r"(pack_pair(sum[6], sum[7]))
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row),
                 "r"(pack_pair(sum[0], sum[1])), "r"(pack_pair(sum[2], sum[3]))
                 : "memory");
#endif
}
#endif

#if !REQUANTISED
// Writes a thread's accumulators, the first at row m and column n, in pairs. What the epilogue of some of them needs is
// loaded before any of these is stored: the compiler cannot know that stores do not alias.
template <int COUNT>
__device__ __forceinline__ void write_pairs(
    Finished* __restrict__ out, Sum (&sum)[COUNT], int m0, int n0, const EpilogueArgs& epilogue) {
  constexpr int PAIRS = COUNT / 4, AT_ONCE = 8;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int m = m0 + half * ROW_STEP;
    if (!WHOLE_ROWS && m >= C_M) continue;
    auto each = [&](int first, auto body) {
#pragma unroll
      for (int j = first; j < first + AT_ONCE; ++j) {
        const int n = n0 + j * 8;
        if (j < PAIRS && (WHOLE_COLUMNS || n < C_N))
          body(n, static_cast<size_t>(m) * C_N + n, sum[j * 4 + half * 2], sum[j * 4 + half * 2 + 1]);
      }
    };
#pragma unroll
    for (int first = 0; first < PAIRS; first += AT_ONCE) {
      each(first, [&](int n, size_t at, Sum& low, Sum& high) { FINISH(low, high, n, at); });
#if TF32
      each(first, [&](int n, size_t at, Sum low, Sum high) { write_floats(out, at, n, low, high); });
#else
      each(first, [&](int n, size_t at, Sum low, Sum high) { write_pair(out, at, n, low, high); });
#endif
    }
  }
}

#if SMEM_EPILOGUE && C_N % 8 > 0
// Rows of C that are not aligned to 16 bytes: a warp stages 16 rows of up to STRIP columns in shared memory, from where
// lanes write words of two neighbours; in rows not aligned to 4 bytes a word is combined from two. Loops are not
// unrolled: fetching more instructions would take longer than executing these.
__device__ __forceinline__ int odd_element(const Finished* row) {
  return static_cast<int>(reinterpret_cast<unsigned long long>(row) / 2 % 2);
}

template <int WIDTH>
__device__ __forceinline__ void fill_strip(unsigned smem, const float* sum, int lane) {
#pragma unroll
  for (int j = 0; j < WIDTH / 8; j += 2)
    store_fragments(smem + lane % 16 * STRIP_PITCH + (j + lane / 16) * 16, sum + j * 4, j + 1 < WIDTH / 8);
}

// Writes the first `height` staged rows from column n0 on.
template <int WIDTH>
__device__ __forceinline__ void write_strip(
    Finished* __restrict__ out, unsigned smem, int m0, int n0, int lane, int height = 16) {
  constexpr int AT_ONCE = 4, WORDS_EACH = (WIDTH / 2 + 31) / 32;
  const int columns = WHOLE_COLUMNS || C_N - n0 > WIDTH ? WIDTH : C_N - n0;
  const int rows = WHOLE_ROWS || C_M - m0 > height ? height : C_M - m0;
  if (columns <= 0) return;
  const char* const from = static_cast<const char*>(__cvta_shared_to_generic(smem));
  Finished* const to = out + static_cast<size_t>(m0) * C_N + n0;
#pragma unroll 1
  for (int first = 0; first < rows; first += AT_ONCE) {
    // All loads first: the compiler cannot know that stores do not alias.
    unsigned numbers[AT_ONCE][WORDS_EACH];
#pragma unroll
    for (int i = 0; i < AT_ONCE * WORDS_EACH; ++i) {
      const int row = first + i / WORDS_EACH, word = i % WORDS_EACH * 32 + lane;
      const unsigned* const pair = reinterpret_cast<const unsigned*>(from + row * STRIP_PITCH) + word;
      const int odd = C_N % 2 ? odd_element(to) + row & 1 : odd_element(to);
      numbers[i / WORDS_EACH][i % WORDS_EACH] = odd ? __funnelshift_r(pair[0], pair[1], 16) : pair[0];
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE * WORDS_EACH; ++i) {
      const int row = first + i / WORDS_EACH, odd = C_N % 2 ? odd_element(to) + row & 1 : odd_element(to);
      const int column = (i % WORDS_EACH * 32 + lane) * 2 + odd;
      Finished* const at = to + static_cast<size_t>(row) * C_N + column;
      if (row < rows && column + 2 <= columns)
        *reinterpret_cast<unsigned*>(at) = numbers[i / WORDS_EACH][i % WORDS_EACH];
    }
  }
  // The first and last element of a row may lack a neighbour.
  if (lane < rows) {
    const int odd = C_N % 2 ? odd_element(to) + lane & 1 : odd_element(to);
    Finished* const line = to + static_cast<size_t>(lane) * C_N;
    const Finished* const numbers = reinterpret_cast<const Finished*>(from + lane * STRIP_PITCH);
    if (odd) line[0] = numbers[0];
    if ((columns - odd) % 2) line[columns - 1] = numbers[columns - 1];
  }
}

__device__ __forceinline__ void write_strips(
    Finished* __restrict__ out, const float (&sum)[WORDS], unsigned smem, int m0, int n0, int lane) {
  constexpr int LEFT = TILE_N % STRIP;
#pragma unroll
  for (int column = 0; column + STRIP <= TILE_N; column += STRIP) {
    fill_strip<STRIP>(smem, sum + column / 2, lane);
    __syncwarp();
    write_strip<STRIP>(out, smem, m0, n0 + column, lane);
    __syncwarp();
  }
  if (LEFT > 0) {
    fill_strip<LEFT>(smem, sum + (TILE_N - LEFT) / 2, lane);
    __syncwarp();
    write_strip<(LEFT > 0 ? LEFT : STRIP)>(out, smem, m0, n0 + TILE_N - LEFT, lane);
    __syncwarp();
  }
}
#endif

#if STAGED
constexpr int PARTS = FRAGS_M * PANELS_N;

// Stages 16 rows and 64 columns of accumulators in 4096 bytes, swizzled: at most 2-way bank conflicts here and in loads
// of 8 neighbours.
__device__ __forceinline__ void stage_part(unsigned smem, const float (&sum)[TILE_N / 2], int part, int lane) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
    float* const to = static_cast<float*>(__cvta_shared_to_generic(smem)) + row * 64 + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 8; ++j)
      if (part * 8 + j < TILE_N / 8) store_vector<2>(to + (j ^ row % 8) * 8, sum + (part * 8 + j) * 4 + half * 2);
  }
}

// Rows that a thread finishes at once: all of a part, unless registers are full of accumulators.
constexpr int ROWS_AT_ONCE = FRAGS_M * TILE_N / 2 > 128 ? 2 : 4;

// Runs the epilogue of a warp's rows, 64 columns at a time and 8 of a row per thread. Unrolled over all accumulators it
// would be bound by instruction fetch. What rows need is loaded before any is stored, of rows and columns beyond C that
// of the last: a thread waits for a residual once.
__device__ __forceinline__ void write_finished(
    Finished* __restrict__ out, const float (&sum)[FRAGS_M][TILE_N / 2], unsigned smem, int m0, int n0, int lane,
    const EpilogueArgs& epilogue) {
#pragma unroll 1
  for (int part = 0; part < PARTS; ++part) {
#pragma unroll
    for (int i = 0; i < PARTS; ++i)
      if (i == part) stage_part(smem, sum[i / PANELS_N], i % PANELS_N, lane);
    __syncwarp();
    const int inside = part % PANELS_N * 64 + lane % 8 * 8, n = n0 + inside;
    // Also the last panel of a tile may reach beyond C.
    constexpr bool INSIDE = WHOLE_COLUMNS && TILE_N % 64 == 0;
    const int m1 = m0 + part / PANELS_N * 64 + lane / 8, column = INSIDE || n < C_N ? n : C_N - 8;
#pragma unroll 1
    for (int first = 0; first < 16; first += ROWS_AT_ONCE * 4) {
      float results[ROWS_AT_ONCE][8];
#pragma unroll
      for (int i = 0; i < ROWS_AT_ONCE; ++i) {
        const int row = first + i * 4 + lane / 8, m = m1 + first + i * 4;
        const float* const from =
            static_cast<float*>(__cvta_shared_to_generic(smem)) + row * 64 + (lane % 8 ^ row % 8) * 8;
        load_vector<4>(results[i], from);
        load_vector<4>(results[i] + 4, from + 4);
        finish<1>(results[i], epilogue, column, static_cast<size_t>(WHOLE_ROWS || m < C_M ? m : C_M - 1) * C_N + column);
      }
#pragma unroll
      for (int i = 0; i < ROWS_AT_ONCE; ++i) {
        const int m = m1 + first + i * 4;
        if ((!WHOLE_ROWS && m >= C_M) || (!WHOLE_COLUMNS && n >= C_N) || inside >= TILE_N) continue;
        float words[4];
#pragma unroll
        for (int v = 0; v < 4; ++v)
          words[v] = __uint_as_float(pack_pair(last_step(results[i][2 * v]), last_step(results[i][2 * v + 1])));
        store_vector<4>(reinterpret_cast<float*>(out + static_cast<size_t>(m) * C_N + n), words);
      }
    }
    __syncwarp();
  }
}
#elif SMEM_EPILOGUE && C_N % 8 == 0 && !SWAP_AB
__constant__ __align__(128) TensorMap c_map = {{C_MAP}};

// Staging buffers of a warp: boxes of 16 rows of 128 bytes. In a persistent kernel there are two (one is filled while
// the other is stored), else enough for a tile, in the pipeline's buffers.
struct EpilogueBuffers {
  unsigned at;
  int next;
};

// Writes the last COLUMNS of a tile, fewer than BOX_COLUMNS, by vectorised stores.
template <int COLUMNS>
__device__ __forceinline__ void write_remainder(Finished* __restrict__ out, unsigned box, int m0, int n0, int lane) {
  constexpr int NUMBERS = 16 / sizeof(Finished), VECTORS = COLUMNS / NUMBERS;
#pragma unroll
  for (int i = 0; i < 16 * VECTORS; i += 32) {
    const int v = i + lane, row = v / VECTORS, j = v % VECTORS, m = m0 + row, n = n0 + j * NUMBERS;
    if (v >= 16 * VECTORS || (!WHOLE_ROWS && m >= C_M) || (!WHOLE_COLUMNS && n >= C_N)) continue;
    const void* const from = static_cast<char*>(__cvta_shared_to_generic(box)) + row * 128 + (j ^ row % 8) * 16;
    *reinterpret_cast<uint4*>(out + static_cast<size_t>(m) * C_N + n) = *static_cast<const uint4*>(from);
  }
}

// Stores two neighbours of fragment j to a row of a box, with the 128-byte swizzle.
__device__ __forceinline__ void put_pair(char* row, const Sum* pair, int j, int lane, int half) {
#if INT8
  const int number = BESIDE == 2 ? lane / 4 * 2 % 8 + half : lane / 4;
  *reinterpret_cast<int2*>(row + (j * 2 + lane % 4 / 2 ^ number) * 16 + lane % 2 * 8) = make_int2(pair[0], pair[1]);
#else
  *reinterpret_cast<unsigned*>(row + (j ^ lane / 4) * 16 + lane % 4 * 4) =
      pack_pair(scale_and_activate(pair[0]), scale_and_activate(pair[1]));
#endif
}

// Writes a warp's 16 rows by TMA stores, each row of a box a whole cache line.
__device__ __forceinline__ void write_boxes(
    Finished* __restrict__ out, const Sum (&sum)[WRITTEN_N / 2], int m0, int n0, int lane, EpilogueBuffers& buffers) {
  constexpr int FRAGMENTS = BOX_COLUMNS / 8, LEFT = WRITTEN_N % BOX_COLUMNS;
#pragma unroll
  for (int part = 0; part < BOXES_N; ++part) {
    const unsigned box = buffers.at + buffers.next * BOX_BYTES;
    if (PERSISTENT) {
      if (elect_one()) tma_store_wait<1>();
      __syncwarp();
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      char* const row = static_cast<char*>(__cvta_shared_to_generic(box)) + (row_of_lane(lane) + half * ROW_STEP) * 128;
#pragma unroll
      for (int j = 0; j < FRAGMENTS; ++j)
        if (part * FRAGMENTS + j < WRITTEN_N / 8)
          put_pair(row, sum + (part * FRAGMENTS + j) * 4 + half * 2, j, lane, half);
    }
    const bool whole = part < WRITTEN_N / BOX_COLUMNS;
    if (whole) fence_proxy_async();
    __syncwarp();
    if (!whole) write_remainder<LEFT ? LEFT : BOX_COLUMNS>(out, box, m0, n0 + part * BOX_COLUMNS, lane);
    if (elect_one()) {
      if (whole && (WHOLE_ROWS || m0 < C_M) && (WHOLE_COLUMNS || n0 + part * BOX_COLUMNS < C_N))
        tma_store(out, c_map, n0 + part * BOX_COLUMNS, m0, box);
      tma_store_commit();
    }
    buffers.next = (buffers.next + 1) % BOXES_EACH;
  }
}
#endif
#endif
