// transpose_shared_cuda_kernel0(X, T) grid (4, 3, 1) block (16, 16, 1) shared 0
extern "C" __global__ void __launch_bounds__(256)
transpose_shared_cuda_kernel0(const float* __restrict__ X, float* __restrict__ T) {
  __shared__ __align__(16) float X_shared[272];
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  X_shared[ty * 17 + tx] = X[bx * 768 + ty * 48 + by * 16 + tx];
  __syncthreads();
  T[by * 1024 + ty * 64 + bx * 16 + tx] = X_shared[tx * 17 + ty];
}
