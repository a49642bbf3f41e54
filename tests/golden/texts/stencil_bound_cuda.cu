// stencil_bound_cuda_kernel0(X, Y) grid (8, 1, 1) block (14, 10, 1) shared 0
extern "C" __global__ void __launch_bounds__(140)
stencil_bound_cuda_kernel0(const float* __restrict__ X, float* __restrict__ Y) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  Y[bx * 140 + ty * 14 + tx] = X[bx * 192 + ty * 16 + tx + 209] * 0.5f + X[bx * 192 + ty * 16 + tx + 17] + X[bx * 192 + ty * 16 + tx + 401];
}
