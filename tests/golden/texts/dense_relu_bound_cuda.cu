// dense_relu_bound_cuda_kernel0(data, weight, bias, T_relu) grid (24, 1, 1) block (64, 1, 1) shared 0
// helper max_float

extern "C" __global__ void __launch_bounds__(64)
dense_relu_bound_cuda_kernel0(
    const float* __restrict__ data,
    const float* __restrict__ weight,
    const float* __restrict__ bias,
    float* __restrict__ T_relu) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __builtin_assume(0 <= bx && bx < 24);
  __builtin_assume(0 <= tx && tx < 64);
  float dense[1];
  dense[0] = 0.0f;
  for (int k = 0; k < 64; ++k) {
    dense[0] += data[bx * 64 + (bx * 16 + tx) / 48 * 64 + k] * weight[(bx * 16 + tx) % 48 * 64 + k];
  }
  T_relu[bx * 64 + tx] = max_float(dense[0] + bias[(bx * 16 + tx) % 48], 0.0f);
}
