// add_bfloat_cuda_kernel0(A, B, C) grid (16, 1, 1) block (64, 1, 1) shared 0
#include <cuda_bf16.h>

extern "C" __global__ void __launch_bounds__(64)
add_bfloat_cuda_kernel0(
    const __nv_bfloat16* __restrict__ A,
    const __nv_bfloat16* __restrict__ B,
    __nv_bfloat16* __restrict__ C) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  C[bx * 64 + tx] = A[bx * 64 + tx] + B[bx * 64 + tx];
}
