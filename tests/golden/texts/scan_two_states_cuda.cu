// scan_two_states_cuda_kernel0(X, Y_v0, Y_v1) grid (1, 1, 1) block (24, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(24)
scan_two_states_cuda_kernel0(const float* __restrict__ X, float* __restrict__ Y_v0, float* __restrict__ Y_v1) {
  const int tx = threadIdx.x;
  Y_v0[tx] = X[tx];
  Y_v1[tx] = 0.0f;
  for (int Y_idx = 0; Y_idx < 4; ++Y_idx) {
    __syncthreads();
    Y_v0[Y_idx * 24 + tx + 24] = Y_v0[Y_idx * 24 + tx] + X[Y_idx * 24 + tx + 24];
    __syncthreads();
    Y_v1[Y_idx * 24 + tx + 24] = Y_v1[Y_idx * 24 + tx] + Y_v0[Y_idx * 24 + tx + 24] * Y_v0[Y_idx * 24 - tx + 23];
  }
}
