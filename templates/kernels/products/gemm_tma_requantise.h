// Epilogue of gemm_tma.cu where sums of integers become bytes (requantise.h), which rows of whole 16 bytes take.
//
// A warp puts the bytes of 16 rows and 128 columns into shared memory, from where lanes write 16 neighbours each. A
// residual is read in such vectors too, before the sums are converted: those are put down as whole steps from SUM_BASE on.
#if REQUANTISED
#undef EPILOGUE_PARAMETERS
#define EPILOGUE_PARAMETERS REQUANTISE_PARAMETERS

struct RequantiseArgs {
  const int* weights;
  const float *scale, *shift;
  const Added* residual;
};

#if RESIDUAL
constexpr int STEPS_FROM = SUM_BASE;
#else
constexpr int STEPS_FROM = -OUT_ZERO;
#endif

// Loads what is known of two channels, of which the first is even.
__device__ __forceinline__ Channels<2> two_channels(const RequantiseArgs& end, int channel) {
  Channels<2> found;
  const float2 scale = *reinterpret_cast<const float2*>(end.scale + channel);
  const float2 shift = *reinterpret_cast<const float2*>(end.shift + channel);
  found.scale[0] = scale.x, found.scale[1] = scale.y, found.shift[0] = shift.x, found.shift[1] = shift.y;
  found.centre[0] = found.centre[1] = 0;
  if (DATA_ZERO) {
    const int2 weights = *reinterpret_cast<const int2*>(end.weights + channel);
    found.centre[0] = DATA_ZERO * weights.x, found.centre[1] = DATA_ZERO * weights.y;
  }
  return found;
}

// Returns the bytes of two neighbouring sums: those of the result, or with a residual steps.
__device__ __forceinline__ unsigned two_bytes(const int* sums, const Channels<2>& end) {
  unsigned bytes = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float value = requantised(sums[i], end, i);
    bytes |= ((__float_as_int(__fadd_rn(value, MAGIC)) - STEPS_FROM) & 0xff) << 8 * i;
  }
  return bytes;
}

// Adds a vector of the residual to a vector of steps.
__device__ __forceinline__ unsigned add_four(unsigned steps, unsigned others) {
#if RESIDUAL
  unsigned bytes = 0;
#pragma unroll
  for (int i = 0; i < 32; i += 8) {
    const float sum = __int_as_float(0x4b000000 | (steps >> i & 0xff)) - (8388608.0f - STEPS_FROM);
    bytes |= byte_of(with_residual(sum, others >> i & 0xff)) << i;
  }
  return bytes;
#else
  return steps;
#endif
}

// Writes 16 rows from m0 on, and COLUMNS from n0 on.
template <int COLUMNS>
__device__ __forceinline__ void write_bytes(
    Result* __restrict__ out, const int* sum, unsigned smem, int m0, int n0, int lane, const RequantiseArgs& end) {
  char* const box = static_cast<char*>(__cvta_shared_to_generic(smem));
  const int vector = lane % 8, column = n0 + vector * 16;
  const bool exists = vector * 16 < COLUMNS && (WHOLE_COLUMNS || column < C_N);
  uint4 others[4];
#if RESIDUAL
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int m = m0 + i * 4 + lane / 8;
    if (exists && (WHOLE_ROWS || m < C_M))
      others[i] = *reinterpret_cast<const uint4*>(end.residual + static_cast<size_t>(m) * C_N + column);
  }
#endif
#pragma unroll
  for (int j = 0; j < COLUMNS / 8; ++j) {
    const int n = n0 + j * 8 + lane % 4 * 2;
    const Channels<2> two = two_channels(end, WHOLE_COLUMNS || n < C_N ? n : C_N - 2);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<unsigned short*>(
          box + (lane / 4 + half * 8) * 128 + (j / 2 ^ lane / 4) * 16 + j % 2 * 8 + lane % 4 * 2) =
          static_cast<unsigned short>(two_bytes(sum + j * 4 + half * 2, two));
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = i * 4 + lane / 8, m = m0 + row;
    if (!exists || (!WHOLE_ROWS && m >= C_M)) continue;
    const uint4 steps = *reinterpret_cast<const uint4*>(box + row * 128 + (vector ^ row % 8) * 16);
    *reinterpret_cast<uint4*>(out + static_cast<size_t>(m) * C_N + column) =
        make_uint4(add_four(steps.x, others[i].x), add_four(steps.y, others[i].y), add_four(steps.z, others[i].z),
                   add_four(steps.w, others[i].w));
  }
  __syncwarp();
}

// Writes a warp's rows of a tile: 16 from m0 on, and of further fragments 64 rows later.
template <int HELD>
__device__ __forceinline__ void write_finished(
    Result* __restrict__ out, const int (&sum)[FRAGS_M][HELD], unsigned smem, int m0, int n0, int lane,
    const RequantiseArgs& end) {
  constexpr int LEFT = HELD * 2 % 128;
#pragma unroll
  for (int i = 0; i < FRAGS_M; ++i) {
#pragma unroll
    for (int part = 0; part < HELD / 64; ++part)
      write_bytes<128>(out, sum[i] + part * 64, smem, m0 + i * 64, n0 + part * 128, lane, end);
    if (LEFT > 0)
      write_bytes<LEFT>(out, sum[i] + HELD / 64 * 64, smem, m0 + i * 64, n0 + HELD / 64 * 128, lane, end);
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
