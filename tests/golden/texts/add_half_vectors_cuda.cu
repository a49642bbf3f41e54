// add_half_vectors_cuda_kernel0(A, B, C) grid (4, 1, 1) block (32, 1, 1) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(32)
add_half_vectors_cuda_kernel0(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    __half* __restrict__ C) {
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  {
    __align__(16) __half A_lanes[8];
    *(uint4*)A_lanes = *(const uint4*)(A + bx * 256 + tx * 8);
    __align__(16) __half B_lanes[8];
    *(uint4*)B_lanes = *(const uint4*)(B + bx * 256 + tx * 8);
    __align__(16) __half lanes[8] = {A_lanes[0] + B_lanes[0], A_lanes[1] + B_lanes[1], A_lanes[2] + B_lanes[2], A_lanes[3] + B_lanes[3], A_lanes[4] + B_lanes[4], A_lanes[5] + B_lanes[5], A_lanes[6] + B_lanes[6], A_lanes[7] + B_lanes[7]};
    *(uint4*)(C + bx * 256 + tx * 8) = *(const uint4*)lanes;
  }
}
