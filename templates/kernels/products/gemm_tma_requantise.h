// Epilogue of gemm_tma.cu where sums of integers become bytes (requantise.h), which rows of whole 16 bytes take.
//
// A warp puts the bytes of 16 rows and 128 columns into shared memory, from where lanes write 16 neighbours each. A
// residual is read in such vectors too, before the sums are complete, and takes the place of the results there first.
#if REQUANTISED
#undef EPILOGUE_PARAMETERS
#define EPILOGUE_PARAMETERS REQUANTISE_PARAMETERS

struct RequantiseArgs {
  const int* weights;
  const float *scale, *shift;
  const Added* residual;
};

__device__ __forceinline__ Channels<2> two_channels(const RequantiseArgs& end, int channel) {
  return all_channels<2>(end.weights, end.scale, end.shift, channel);
}

// Vectors of a residual that a lane has of 16 rows and 128 columns.
constexpr int ROW_VECTORS = 4;
// Boxes of a warp's rows of a tile: fragments of rows by columns.
constexpr int BOXES_ACROSS = (WRITTEN_N + 127) / 128, ALL_BOXES = RESIDUAL ? FRAGS_M * BOXES_ACROSS : 1;

struct ResidualBoxes {
  uint4 vector[ALL_BOXES][ROW_VECTORS];
};

// Returns whether a lane has a vector of a box of COLUMNS columns from n0 on.
__device__ __forceinline__ bool has_column(int columns, int n0, int lane) {
  return lane % 8 * 16 < columns && (WHOLE_COLUMNS || n0 + lane % 8 * 16 < C_N);
}

// Loads the residual of a warp's rows of a tile, while its first K tile is in flight.
__device__ __forceinline__ void load_residual(
    ResidualBoxes& boxes, const Added* __restrict__ residual, int m0, int n0, int lane) {
#if RESIDUAL
#pragma unroll
  for (int i = 0; i < ALL_BOXES * ROW_VECTORS; ++i) {
    const int box = i / ROW_VECTORS, part = box % BOXES_ACROSS, n = n0 + part * 128;
    const int m = m0 + box / BOXES_ACROSS * 64 + i % ROW_VECTORS * 4 + lane / 8;
    boxes.vector[box][i % ROW_VECTORS] = make_uint4(0, 0, 0, 0);
    if (has_column(WRITTEN_N - part * 128, n, lane) && (WHOLE_ROWS || m < C_M))
      boxes.vector[box][i % ROW_VECTORS] =
          *reinterpret_cast<const uint4*>(residual + static_cast<size_t>(m) * C_N + n + lane % 8 * 16);
  }
#endif
}

// Returns the bytes of two neighbouring sums, with those of a residual where there is one.
__device__ __forceinline__ unsigned finished_two(const int* sums, const Channels<2>& end, unsigned others) {
#if RESIDUAL
  return byte_of(with_residual(requantised(sums[0], end, 0), others & 0xff)) |
         byte_of(with_residual(requantised(sums[1], end, 1), others >> 8)) << 8;
#else
  return bytes_of_two(sums, end);
#endif
}

// Writes 16 rows from m0 on, and COLUMNS from n0 on.
template <int COLUMNS>
__device__ __forceinline__ void write_bytes(
    Result* __restrict__ out, const int* sum, const uint4 (&others)[ROW_VECTORS], unsigned smem, int m0, int n0,
    int lane, const RequantiseArgs& end) {
  char* const box = static_cast<char*>(__cvta_shared_to_generic(smem));
  const int vector = lane % 8, column = n0 + vector * 16;
  uint4* to[ROW_VECTORS];
#pragma unroll
  for (int i = 0; i < ROW_VECTORS; ++i) {
    const int row = i * 4 + lane / 8;
    to[i] = reinterpret_cast<uint4*>(box + row * 128 + (vector ^ row % 8) * 16);
    if (RESIDUAL) *to[i] = others[i];
  }
  if (RESIDUAL) __syncwarp();
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; ++j) {
    const int n = n0 + j * 8 + lane % 4 * 2;
    const Channels<2> two = two_channels(end, WHOLE_COLUMNS || n < C_N ? n : C_N - 2);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned short* const at = reinterpret_cast<unsigned short*>(
          box + (lane / 4 + half * 8) * 128 + (j / 2 ^ lane / 4) * 16 + j % 2 * 8 + lane % 4 * 2);
      *at = static_cast<unsigned short>(finished_two(sum + j * 4 + half * 2, two, RESIDUAL ? *at : 0));
    }
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < ROW_VECTORS; ++i) {
    const int m = m0 + i * 4 + lane / 8;
    if (has_column(COLUMNS, n0, lane) && (WHOLE_ROWS || m < C_M))
      *reinterpret_cast<uint4*>(out + static_cast<size_t>(m) * C_N + column) = *to[i];
  }
  __syncwarp();
}

// Writes a warp's rows of a tile: 16 from m0 on, and of further fragments 64 rows later.
template <int HELD>
__device__ __forceinline__ void write_finished(
    Result* __restrict__ out, const int (&sum)[FRAGS_M][HELD], const ResidualBoxes& others, unsigned smem, int m0, int n0,
    int lane, const RequantiseArgs& end) {
  constexpr int LEFT = HELD * 2 % 128, WHOLE = HELD / 64;
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) {
    const auto& of_rows = &others.vector[RESIDUAL ? i * BOXES_ACROSS : 0];
#pragma unroll
    for (int part = 0; part < WHOLE; ++part)
      write_bytes<128>(out, sum[i] + part * 64, of_rows[RESIDUAL ? part : 0], smem, m0 + i * 64, n0 + part * 128, lane, end);
    if (LEFT > 0)
      write_bytes<LEFT>(out, sum[i] + WHOLE * 64, of_rows[RESIDUAL ? WHOLE : 0], smem, m0 + i * 64, n0 + WHOLE * 128, lane, end);
  }
}

// Writes the four sums of a thread that adds ranges of K: two neighbours in rows m and m + 8.
__device__ __forceinline__ void write_pairs(
    Result* __restrict__ out, const int (&sum)[4], int m, int n, const RequantiseArgs& end) {
  if (!WHOLE_COLUMNS && n >= C_N) return;
  const Channels<2> two = two_channels(end, n);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!WHOLE_ROWS && m + half * ROW_STEP >= C_M) return;
    const int pair[2] = {sum[half * 2], sum[half * 2 + 1]};
    const size_t at = static_cast<size_t>(m + half * ROW_STEP) * C_N + n;
    write_results<true>(out, at, pair, two, 2, end.residual);
  }
}
#endif
