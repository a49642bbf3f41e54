// chain_kernels_cuda_kernel0(X, a) grid (16, 1, 1) block (64, 1, 1) shared 0
// chain_kernels_cuda_kernel1(a, b) grid (16, 1, 1) block (64, 1, 1) shared 0
// chain_kernels_cuda_kernel2(c, a, b) grid (16, 1, 1) block (64, 1, 1) shared 0
// helper max_float

extern "C" __global__ void __launch_bounds__(64)
chain_kernels_cuda_kernel0(const float* __restrict__ X, float* __restrict__ a) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  if (bx * 64 + tx < 1000) {
    a[bx * 64 + tx] = X[bx * 64 + tx] * 2.0f + 1.0f;
  }
}

extern "C" __global__ void __launch_bounds__(64)
chain_kernels_cuda_kernel1(float* __restrict__ a, float* __restrict__ b) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  if (bx * 64 + tx < 1000) {
    b[bx * 64 + tx] = tanhf(a[bx * 64 + tx]);
  }
}

extern "C" __global__ void __launch_bounds__(64)
chain_kernels_cuda_kernel2(float* __restrict__ c, float* __restrict__ a, float* __restrict__ b) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  if (bx * 64 + tx < 1000) {
    c[bx * 64 + tx] = max_float(a[bx * 64 + tx], b[bx * 64 + tx]);
  }
}
