// add_bytes_cuda_kernel0(A, B, C) grid (16, 1, 1) block (64, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(64)
add_bytes_cuda_kernel0(
    const signed char* __restrict__ A,
    const signed char* __restrict__ B,
    signed char* __restrict__ C) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  C[bx * 64 + tx] = (signed char)(A[bx * 64 + tx] + B[bx * 64 + tx]);
}
