// add_bound_tail_cuda_kernel0(A, B, C) grid (16, 1, 1) block (64, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(64)
add_bound_tail_cuda_kernel0(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  if (bx * 64 + tx < 1000) {
    C[bx * 64 + tx] = A[bx * 64 + tx] + B[bx * 64 + tx];
  }
}
