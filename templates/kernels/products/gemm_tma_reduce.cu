// Split-K reduction: adds the partial sums that the blocks of gemm_tma.cu wrote in the order of their registers; a
// thread has four of each, of two rows.
#if SPLIT > 1 && !CLUSTER_REDUCE
constexpr int SUM_THREADS = 256;

extern "C" __global__ void __launch_bounds__(SUM_THREADS) gemm_tma_reduce(
    const FourSums* __restrict__ parts, EPILOGUE_PARAMETERS Finished* __restrict__ out) {
  constexpr int CONSUMER_THREADS = GROUPS * 128, OF_FRAGMENT = WORDS / 4 * CONSUMER_THREADS,
                OF_TILE = FRAGS_M * OF_FRAGMENT;
  const unsigned at = blockIdx.x * SUM_THREADS + threadIdx.x;
  const int thread = at % CONSUMER_THREADS, j = at / CONSUMER_THREADS % (WORDS / 4),
            fragment = at / OF_FRAGMENT % FRAGS_M;
  FourSums part[SPLIT];
#pragma unroll
  for (int range = 0; range < SPLIT; ++range) part[range] = parts[static_cast<size_t>(range) * TILES * OF_TILE + at];
  Sum sum[4] = {part[0].x, part[0].y, part[0].z, part[0].w};
#pragma unroll
  for (int range = 1; range < SPLIT; ++range)
    sum[0] += part[range].x, sum[1] += part[range].y, sum[2] += part[range].z, sum[3] += part[range].w;
  const Tile tile = tile_of(at / OF_TILE);
  const size_t matrix = static_cast<size_t>(tile.matrix) * C_M * C_N;
#if REQUANTISED
  const RequantiseArgs epilogue = {REQUANTISATION RESIDUAL_POINTER};
#elif FOLLOWS
  const EpilogueArgs epilogue = {bias, RESIDUAL ? residual + matrix : residual, scale, shift};
#else
  const EpilogueArgs epilogue = {};
#endif
  const int row = (thread / 128 * FRAGS_M + fragment) * 64 + thread % 128 / 32 * 16 + row_of_lane(thread % 32);
#if SWAP_AB
  write_across(out + matrix, sum, tile.m + row, tile.n + j * 8 + thread % 4 * 2, epilogue);
#else
  write_pairs(out + matrix, sum, tile.m + row, tile.n + j * 8 + thread % 4 * 2, epilogue);
#endif
}
#endif
