// argmax_rows_cuda_kernel0(X, best_v0, best_v1) grid (1, 1, 1) block (8, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(8)
argmax_rows_cuda_kernel0(
    const float* __restrict__ X,
    int* __restrict__ best_v0,
    float* __restrict__ best_v1) {
  const int tx = threadIdx.x;
  best_v0[tx] = -1;
  best_v1[tx] = -3.4028235e+38f;
  for (int k = 0; k < 64; ++k) {
    const int best_new0 = (best_v1[tx] >= X[tx * 64 + k]) ? best_v0[tx] : k;
    const float best_new1 = (best_v1[tx] >= X[tx * 64 + k]) ? best_v1[tx] : X[tx * 64 + k];
    best_v0[tx] = best_new0;
    best_v1[tx] = best_new1;
  }
}
