// softmax_block_a_row_cuda_kernel0(X, T_div) grid (8, 1, 1) block (32, 1, 1) shared 0
// helper max_float

extern "C" __global__ void __launch_bounds__(32)
softmax_block_a_row_cuda_kernel0(const float* __restrict__ X, float* __restrict__ T_div) {
  __shared__ __align__(16) float T_max[1];
  __shared__ __align__(16) float T_sum[1];
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  float T_max_share[1];
  float T_sum_share[1];
  T_max_share[0] = -__int_as_float(0x7f800000);
  for (int k_outer = 0; k_outer < 4; ++k_outer) {
    if (k_outer * 32 + tx < 100) {
      T_max_share[0] = max_float(T_max_share[0], X[bx * 100 + k_outer * 32 + tx]);
    }
  }
  const float T_max_other = __shfl_xor_sync(0xffffffffu, T_max_share[0], 16, 32);
  T_max_share[0] = max_float(T_max_share[0], T_max_other);
  const float T_max_other_1 = __shfl_xor_sync(0xffffffffu, T_max_share[0], 8, 32);
  T_max_share[0] = max_float(T_max_share[0], T_max_other_1);
  const float T_max_other_2 = __shfl_xor_sync(0xffffffffu, T_max_share[0], 4, 32);
  T_max_share[0] = max_float(T_max_share[0], T_max_other_2);
  const float T_max_other_3 = __shfl_xor_sync(0xffffffffu, T_max_share[0], 2, 32);
  T_max_share[0] = max_float(T_max_share[0], T_max_other_3);
  const float T_max_other_4 = __shfl_xor_sync(0xffffffffu, T_max_share[0], 1, 32);
  T_max_share[0] = max_float(T_max_share[0], T_max_other_4);
  if (tx == 0) {
    T_max[0] = T_max_share[0];
  }
  T_sum_share[0] = 0.0f;
  __syncthreads();
  for (int r_outer = 0; r_outer < 4; ++r_outer) {
    if (r_outer * 32 + tx < 100) {
      T_sum_share[0] += expf(X[bx * 100 + r_outer * 32 + tx] - T_max[0]);
    }
  }
  const float T_sum_other = __shfl_xor_sync(0xffffffffu, T_sum_share[0], 16, 32);
  T_sum_share[0] += T_sum_other;
  const float T_sum_other_1 = __shfl_xor_sync(0xffffffffu, T_sum_share[0], 8, 32);
  T_sum_share[0] += T_sum_other_1;
  const float T_sum_other_2 = __shfl_xor_sync(0xffffffffu, T_sum_share[0], 4, 32);
  T_sum_share[0] += T_sum_other_2;
  const float T_sum_other_3 = __shfl_xor_sync(0xffffffffu, T_sum_share[0], 2, 32);
  T_sum_share[0] += T_sum_other_3;
  const float T_sum_other_4 = __shfl_xor_sync(0xffffffffu, T_sum_share[0], 1, 32);
  T_sum_share[0] += T_sum_other_4;
  if (tx == 0) {
    T_sum[0] = T_sum_share[0];
  }
  __syncthreads();
  for (int j_outer = 0; j_outer < 4; ++j_outer) {
    if (j_outer * 32 + tx < 100) {
      T_div[bx * 100 + j_outer * 32 + tx] = expf(X[bx * 100 + j_outer * 32 + tx] - T_max[0]) / T_sum[0];
    }
  }
}
