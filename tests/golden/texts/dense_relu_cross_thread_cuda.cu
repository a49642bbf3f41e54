// dense_relu_cross_thread_cuda_kernel0(data, weight, bias, T_relu) grid (1536, 1, 1) block (32, 1, 1) shared 0
// helper max_float

extern "C" __global__ void __launch_bounds__(32)
dense_relu_cross_thread_cuda_kernel0(
    const float* __restrict__ data,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ T_relu) {
  __shared__ __align__(16) float dense[1];
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __builtin_assume(0 <= bx && bx < 1536);
  __builtin_assume(0 <= tx && tx < 32);
  float dense_share[1];
  dense_share[0] = 0.0f;
  for (int k_outer = 0; k_outer < 2; ++k_outer) {
    dense_share[0] += data[bx / 48 * 64 + k_outer * 32 + tx] * weight[bx % 48 * 64 + k_outer * 32 + tx];
  }
  const float dense_other = __shfl_xor_sync(0xffffffffu, dense_share[0], 16, 32);
  dense_share[0] += dense_other;
  const float dense_other_1 = __shfl_xor_sync(0xffffffffu, dense_share[0], 8, 32);
  dense_share[0] += dense_other_1;
  const float dense_other_2 = __shfl_xor_sync(0xffffffffu, dense_share[0], 4, 32);
  dense_share[0] += dense_other_2;
  const float dense_other_3 = __shfl_xor_sync(0xffffffffu, dense_share[0], 2, 32);
  dense_share[0] += dense_other_3;
  const float dense_other_4 = __shfl_xor_sync(0xffffffffu, dense_share[0], 1, 32);
  dense_share[0] += dense_other_4;
  if (tx == 0) {
    dense[0] = dense_share[0];
  }
  if (tx == 0) {
    T_relu[bx] = max_float(dense[0] + bias[bx % 48], 0.0f);
  }
}
