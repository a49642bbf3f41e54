// total_one_block_cuda_kernel0(X, total) grid (1, 1, 1) block (64, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(64)
total_one_block_cuda_kernel0(const float* __restrict__ X, float* __restrict__ total) {
  __shared__ __align__(16) float total_scratch[2];
  const int tx = threadIdx.x;
  float total_share[1];
  total_share[0] = 0.0f;
  for (int k_outer = 0; k_outer < 16; ++k_outer) {
    if (k_outer * 64 + tx < 1000) {
      total_share[0] += X[k_outer * 64 + tx];
    }
  }
  const float total_other = __shfl_xor_sync(0xffffffffu, total_share[0], 16, 32);
  total_share[0] += total_other;
  const float total_other_1 = __shfl_xor_sync(0xffffffffu, total_share[0], 8, 32);
  total_share[0] += total_other_1;
  const float total_other_2 = __shfl_xor_sync(0xffffffffu, total_share[0], 4, 32);
  total_share[0] += total_other_2;
  const float total_other_3 = __shfl_xor_sync(0xffffffffu, total_share[0], 2, 32);
  total_share[0] += total_other_3;
  const float total_other_4 = __shfl_xor_sync(0xffffffffu, total_share[0], 1, 32);
  total_share[0] += total_other_4;
  if ((tx & 31) == 0) {
    total_scratch[tx >> 5] = total_share[0];
  }
  __syncthreads();
  total_share[0] = total_scratch[tx & 1];
  const float total_other_5 = __shfl_xor_sync(0xffffffffu, total_share[0], 1, 2);
  total_share[0] += total_other_5;
  if (tx == 0) {
    total[0] = total_share[0];
  }
}
