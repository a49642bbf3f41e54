// row_sum_many_warps_cuda_kernel0(X, S) grid (16, 1, 1) block (128, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(128)
row_sum_many_warps_cuda_kernel0(const float* __restrict__ X, float* __restrict__ S) {
  __shared__ __align__(16) float S_scratch[4];
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  float S_share[1];
  S_share[0] = 0.0f;
  for (int k_outer = 0; k_outer < 2; ++k_outer) {
    S_share[0] += X[bx * 256 + k_outer * 128 + tx];
  }
  const float S_other = __shfl_xor_sync(0xffffffffu, S_share[0], 16, 32);
  S_share[0] += S_other;
  const float S_other_1 = __shfl_xor_sync(0xffffffffu, S_share[0], 8, 32);
  S_share[0] += S_other_1;
  const float S_other_2 = __shfl_xor_sync(0xffffffffu, S_share[0], 4, 32);
  S_share[0] += S_other_2;
  const float S_other_3 = __shfl_xor_sync(0xffffffffu, S_share[0], 2, 32);
  S_share[0] += S_other_3;
  const float S_other_4 = __shfl_xor_sync(0xffffffffu, S_share[0], 1, 32);
  S_share[0] += S_other_4;
  if ((tx & 31) == 0) {
    S_scratch[tx >> 5] = S_share[0];
  }
  __syncthreads();
  S_share[0] = S_scratch[tx & 3];
  const float S_other_5 = __shfl_xor_sync(0xffffffffu, S_share[0], 2, 4);
  S_share[0] += S_other_5;
  const float S_other_6 = __shfl_xor_sync(0xffffffffu, S_share[0], 1, 4);
  S_share[0] += S_other_6;
  if (tx == 0) {
    S[bx] = S_share[0];
  }
}
