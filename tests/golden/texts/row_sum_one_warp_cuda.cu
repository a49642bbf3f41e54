// row_sum_one_warp_cuda_kernel0(X, S) grid (16, 1, 1) block (32, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(32)
row_sum_one_warp_cuda_kernel0(const float* __restrict__ X, float* __restrict__ S) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  float S_share[1];
  S_share[0] = 0.0f;
  for (int k_outer = 0; k_outer < 8; ++k_outer) {
    S_share[0] += X[bx * 256 + k_outer * 32 + tx];
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
  if (tx == 0) {
    S[bx] = S_share[0];
  }
}
