// row_sum_split_k_cuda_kernel0(X, S_rf) grid (16, 4, 1) block (1, 1, 1) shared 0
// row_sum_split_k_cuda_kernel1(S, S_rf) grid (1, 1, 1) block (16, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(1)
row_sum_split_k_cuda_kernel0(const float* __restrict__ X, float* __restrict__ S_rf) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  S_rf[by * 16 + bx] = 0.0f;
  for (int k_inner = 0; k_inner < 64; ++k_inner) {
    S_rf[by * 16 + bx] += X[bx * 256 + by * 64 + k_inner];
  }
}

extern "C" __global__ void __launch_bounds__(16)
row_sum_split_k_cuda_kernel1(float* __restrict__ S, float* __restrict__ S_rf) {
  const int tx = threadIdx.x;
  S[tx] = 0.0f;
  for (int k_outer_v = 0; k_outer_v < 4; ++k_outer_v) {
    S[tx] += S_rf[k_outer_v * 16 + tx];
  }
}
