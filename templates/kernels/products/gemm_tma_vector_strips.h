// Takes the place of `write_strips`, and of `write_swapped`, where rows of C are not aligned to 16 bytes but matrices
// are: then the compiler knows the misalignment of each of eight rows, which rows 8 apart share. Lanes write vectors of
// 16 bytes from a row's first aligned column on, of all rows that are aligned alike at once, and the elements before
// and behind these one by one. Strips are staged unshifted: a vector is taken from the two aligned ones that it
// straddles.
#if SWAP_AB
#define write_swapped write_swapped_in_vectors
#else
#define write_strips write_strips_in_vectors
#endif

// Returns how many elements a row has before the first multiple of 16 bytes.
__device__ __forceinline__ constexpr int before_vectors(int row) { return -row * (C_N % 8) & 7; }

// A place in global memory, where words are stored four at a time: the compiler would split plain stores in a branch.
#ifdef AUTOTUNE_EMULATE
struct Place {
  Finished* to;
  void store(long long elements, const unsigned* word) const {
    *reinterpret_cast<uint4*>(to + elements) = make_uint4(word[0], word[1], word[2], word[3]);
  }
};
static inline Place place_of(Finished* to) { return {to}; }
#else
struct Place {
  unsigned long long to;
  __device__ __forceinline__ void store(long long elements, const unsigned* word) const {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to + elements * 2), "r"(word[0]), "r"(word[1]),
                 "r"(word[2]), "r"(word[3])
                 : "memory");
  }
};
__device__ __forceinline__ Place place_of(Finished* to) {
  Place place = {__cvta_generic_to_global(to)};
  asm volatile("" : "+l"(place.to));  // computed once
  return place;
}
#endif

// A thread's part in writing up to EIGHTS times eight staged rows, of which `rows` and `columns` are in bounds.
template <int WIDTH, int EIGHTS>
struct StagedRows {
  static constexpr int VECTORS = WIDTH / 8, AT_ONCE = 4;
  const char* from;
  Finished* to;
  int rows, columns, lane;

  // Writes the vectors. All loads come first: the compiler cannot know that stores do not alias.
  __device__ __forceinline__ void write_vectors() const {
    const int vector = lane % VECTORS, behind = columns - vector * 8 - 8, eight = lane / VECTORS;
    const int rows_behind = eight < EIGHTS ? rows - eight * 8 : 0, own_eight = rows_behind > 0 ? eight : 0;
    const char* const own = from + own_eight * 8 * STRIP_PITCH + vector * 16;
    const Place at = place_of(to + static_cast<size_t>(own_eight) * 8 * C_N + vector * 8);
#pragma unroll
    for (int first = 0; first < 8; first += AT_ONCE) {
      unsigned words[AT_ONCE][8];
#pragma unroll
      for (int i = 0; i < AT_ONCE * 2; ++i) {
        const uint4 x = *reinterpret_cast<const uint4*>(own + (first + i / 2) * STRIP_PITCH + i % 2 * 16);
        unsigned* const four = words[i / 2] + i % 2 * 4;
        four[0] = x.x, four[1] = x.y, four[2] = x.z, four[3] = x.w;
      }
#pragma unroll
      for (int i = 0; i < AT_ONCE; ++i) {
        const int before = before_vectors(first + i);
        unsigned* const word = words[i] + before / 2;
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (before % 2) word[j] = __funnelshift_r(word[j], words[i][before / 2 + j + 1], 16);
        const long long element = static_cast<long long>(first + i) * C_N + before;
        if (first + i < rows_behind && before <= behind) at.store(element, word);
      }
    }
  }

  // Writes the elements before and behind the vectors: of a row at most eight, or up to seven more where it ends within
  // a vector.
  __device__ __forceinline__ void write_edges() const {
#pragma unroll 1
    for (int pass = 0; pass < 8 + columns % 8; pass += 8) {
      Finished edges[2][EIGHTS];
      int own_column[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = lane / 8 + i * 4, before = before_vectors(row), place = pass + lane % 8;
        const int leading = before < columns ? before : columns, trailing = columns - leading & 7;
        const int column = place < leading ? place : columns - trailing + place - leading;
        own_column[i] = place < leading + trailing ? column : -1;
        const Finished* const own = reinterpret_cast<const Finished*>(from + row * STRIP_PITCH) + column;
#pragma unroll
        for (int j = 0; j < EIGHTS; ++j)
          if (own_column[i] >= 0 && row + j * 8 < rows) edges[i][j] = own[j * 8 * (STRIP_PITCH / 2)];
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = lane / 8 + i * 4;
        Finished* const own = to + static_cast<size_t>(row) * C_N + own_column[i];
#pragma unroll
        for (int j = 0; j < EIGHTS; ++j)
          if (own_column[i] >= 0 && row + j * 8 < rows) own[static_cast<size_t>(j) * 8 * C_N] = edges[i][j];
      }
    }
  }
};

// Writes up to `height` staged rows, those of C from row m0, a multiple of 8, and column n0 on.
template <int WIDTH, int EIGHTS>
__device__ __forceinline__ void write_staged(
    Finished* __restrict__ out, unsigned smem, int m0, int n0, int lane, int height) {
  const int columns = WHOLE_COLUMNS || C_N - n0 > WIDTH ? WIDTH : C_N - n0;
  const int rows = WHOLE_ROWS || C_M - m0 > height ? height : C_M - m0;
  if (columns <= 0) return;
  const StagedRows<WIDTH, EIGHTS> staged = {
      static_cast<const char*>(__cvta_shared_to_generic(smem)), out + static_cast<size_t>(m0) * C_N + n0, rows, columns,
      lane};
  staged.write_vectors();
  staged.write_edges();
}

#if SWAP_AB
// All rows of a tile are staged, of which a warp then writes 32 at a time.
__device__ __forceinline__ void write_swapped_in_vectors(
    Finished* __restrict__ out, const float (&sum)[FRAGS_M][WORDS], int m0, int n0, int lane, EpilogueBuffers& buffers) {
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) {
    if (i > 0) buffers.sync();
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j) stage_swapped(buffers.at, sum[i] + j * 4, j * 8, lane);
    buffers.sync();
#pragma unroll 1
    for (int row = threadIdx.x / 32 % 4 * 32; row < TILE_N; row += 128)
      write_staged<64, 4>(out, buffers.at + row * STRIP_PITCH, n0 + row, m0 + i * 64, lane,
                          TILE_N - row < 32 ? TILE_N - row : 32);
  }
}
#else
// Stages and writes a warp's 16 rows of WIDTH columns.
template <int WIDTH>
__device__ __forceinline__ void write_one_strip(
    Finished* __restrict__ out, const float* sum, unsigned smem, int m0, int n0, int lane) {
  const unsigned own = smem + lane % 16 * STRIP_PITCH + lane / 16 * 16;
#pragma unroll
  for (int j = 0; j < WIDTH / 8; j += 2) store_fragments(own + j * 16, sum + j * 4, j + 1 < WIDTH / 8);
  __syncwarp();
  write_staged<WIDTH, 2>(out, smem, m0, n0, lane, 16);
  __syncwarp();
}

__device__ __forceinline__ void write_strips_in_vectors(
    Finished* __restrict__ out, const float (&sum)[WORDS], unsigned smem, int m0, int n0, int lane) {
  constexpr int LEFT = TILE_N % STRIP;
#pragma unroll
  for (int column = 0; column + STRIP <= TILE_N; column += STRIP)
    write_one_strip<STRIP>(out, sum + column / 2, smem, m0, n0 + column, lane);
  if (LEFT > 0)
    write_one_strip<(LEFT > 0 ? LEFT : STRIP)>(out, sum + (TILE_N - LEFT) / 2, smem, m0, n0 + TILE_N - LEFT, lane);
}
#endif
