// The K-major copy of an a of 16-bit floats that is stored as [k, m]: rows of K_COPY floats, a multiple of 8, with zeros
// beyond K_PLAIN. A block copies 32 of them of all ROWS rows, a multiple of 8, through shared memory.
constexpr int COPY_THREADS = 128, COPIED = 32, COPY_PITCH = COPIED + 8;

extern "C" __global__ void __launch_bounds__(COPY_THREADS) along_k_a(
    const unsigned short* __restrict__ a, unsigned short* __restrict__ copy) {
  __shared__ __align__(16) unsigned short tile[COPY_ROWS][COPY_PITCH];
  launch_dependent_grids();
  const int k0 = blockIdx.x * COPIED;
#pragma unroll
  for (int i = threadIdx.x; i < COPIED * (COPY_ROWS / 8); i += COPY_THREADS) {
    // Neighbouring threads store to different banks.
    const int k = i % COPIED, m = i / COPIED * 8;
    uint4 eight = make_uint4(0, 0, 0, 0);
    if (k0 + k < K_PLAIN)
      eight = *reinterpret_cast<const uint4*>(a + static_cast<size_t>(k0 + k) * COPY_ROWS + m);
    const unsigned word[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
    for (int j = 0; j < 8; ++j) tile[m + j][k] = static_cast<unsigned short>(word[j / 2] >> j % 2 * 16);
  }
  __syncthreads();
#pragma unroll
  for (int i = threadIdx.x; i < COPIED / 8 * COPY_ROWS; i += COPY_THREADS) {
    const int k = i % (COPIED / 8) * 8, m = i / (COPIED / 8);
    if (k0 + k < K_COPY)
      *reinterpret_cast<uint4*>(copy + static_cast<size_t>(m) * K_COPY + k0 + k) =
          *reinterpret_cast<const uint4*>(&tile[m][k]);
  }
}
