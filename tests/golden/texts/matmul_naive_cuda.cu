// matmul_naive_cuda_kernel0(A, B, C) grid (4, 4, 1) block (16, 16, 1) shared 0
extern "C" __global__ void __launch_bounds__(256)
matmul_naive_cuda_kernel0(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  C[by * 1024 + ty * 64 + bx * 16 + tx] = 0.0f;
  for (int k = 0; k < 64; ++k) {
    C[by * 1024 + ty * 64 + bx * 16 + tx] += A[by * 1024 + ty * 64 + k] * B[k * 64 + bx * 16 + tx];
  }
}
