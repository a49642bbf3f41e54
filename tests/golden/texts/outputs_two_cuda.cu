// outputs_two_cuda_kernel0(X, both_v0, both_v1) grid (4, 1, 1) block (64, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(64)
outputs_two_cuda_kernel0(
    const float* __restrict__ X,
    float* __restrict__ both_v0,
    float* __restrict__ both_v1) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  both_v0[bx * 64 + tx] = X[bx * 64 + tx] * 2.0f;
  both_v1[bx * 64 + tx] = expf(X[bx * 64 + tx]);
}
