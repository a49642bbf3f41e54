// add_vthread_cuda_kernel0(A, B, C) grid (8, 1, 1) block (64, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(64)
add_vthread_cuda_kernel0(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  C[bx * 128 + tx] = A[bx * 128 + tx] + B[bx * 128 + tx];
  C[bx * 128 + tx + 64] = A[bx * 128 + tx + 64] + B[bx * 128 + tx + 64];
}
