// matmul_wgmma_wide_stores_cuda_kernel0(A, B, D) grid (2, 1, 1) block (4, 8, 4) shared 0
#include <cuda_fp16.h>

// helper wgmma_fence

// helper wgmma_m64n128k16_f16

// helper exchange_pairs_f16

extern "C" __global__ void __launch_bounds__(128)
matmul_wgmma_wide_stores_cuda_kernel0(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    __half* __restrict__ D) {
  __shared__ __align__(1024) __half A_shared[4096];
  __shared__ __align__(1024) __half B_shared[8192];
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int tz = threadIdx.z;
  float C[64];
  __half D_lanes[8];
  __half D_lanes_1[8];
  #pragma unroll
  for (int j_init = 0; j_init < 2; ++j_init) {
    #pragma unroll
    for (int j_outer_outer_inner = 0; j_outer_outer_inner < 16; ++j_outer_outer_inner) {
      C[j_outer_outer_inner * 4 + j_init] = 0.0f;
      C[j_outer_outer_inner * 4 + j_init + 2] = 0.0f;
    }
  }
  for (int k_outer_outer = 0; k_outer_outer < 2; ++k_outer_outer) {
    wgmma_show();
    __syncthreads();
    for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
      *(uint4*)(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8) = *(const uint4*)(A + bx * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + k_outer_outer * 64 + (ty & 1) * 32 + tx * 8);
    }
    for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 8; ++ax0_ax1_fused_outer_outer_outer_outer) {
      *(uint4*)(B_shared + ((ty >> 1) & 1) * 4096 + ax0_ax1_fused_outer_outer_outer_outer * 512 + tz * 128 + (ty >> 2) * 64 + (((ty & 1) * 4 + tx) ^ (tz * 2 + (ty >> 2))) * 8) = *(const uint4*)(B + k_outer_outer * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + ty * 32 + tx * 8);
    }
    wgmma_fence();
    wgmma_show();
    __syncthreads();
    wgmma_m64n128k16_f16<0, 1>(C[0], A_shared[0], 0, B_shared[0], 0, 8192, 8192);
    wgmma_m64n128k16_f16<0, 1>(C[0], A_shared[0], 16, B_shared[0], 1024, 8192, 8192);
    wgmma_m64n128k16_f16<0, 1>(C[0], A_shared[0], 32, B_shared[0], 2048, 8192, 8192);
    wgmma_m64n128k16_f16<0, 1>(C[0], A_shared[0], 48, B_shared[0], 3072, 8192, 8192);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_sums<64>(C[0]);
  }
  #pragma unroll
  for (int j_outer_outer_inner_group = 0; j_outer_outer_inner_group < 4; ++j_outer_outer_inner_group) {
    D_lanes[0] = __float2half(C[j_outer_outer_inner_group * 16]);
    D_lanes[1] = __float2half(C[j_outer_outer_inner_group * 16 + 1]);
    D_lanes[2] = __float2half(C[j_outer_outer_inner_group * 16 + 4]);
    D_lanes[3] = __float2half(C[j_outer_outer_inner_group * 16 + 4 + 1]);
    D_lanes[4] = __float2half(C[j_outer_outer_inner_group * 16 + 8]);
    D_lanes[5] = __float2half(C[j_outer_outer_inner_group * 16 + 8 + 1]);
    D_lanes[6] = __float2half(C[j_outer_outer_inner_group * 16 + 12]);
    D_lanes[7] = __float2half(C[j_outer_outer_inner_group * 16 + 12 + 1]);
    exchange_pairs_f16(D_lanes[0], tx);
    __align__(16) __half lanes[8] = {D_lanes[0], D_lanes[1], D_lanes[2], D_lanes[3], D_lanes[4], D_lanes[5], D_lanes[6], D_lanes[7]};
    *(uint4*)(D + bx * 8192 + tz * 2048 + ty * 128 + j_outer_outer_inner_group * 32 + tx * 8) = *(const uint4*)lanes;
    D_lanes_1[0] = __float2half(C[j_outer_outer_inner_group * 16 + 2]);
    D_lanes_1[1] = __float2half(C[j_outer_outer_inner_group * 16 + 2 + 1]);
    D_lanes_1[2] = __float2half(C[j_outer_outer_inner_group * 16 + 6]);
    D_lanes_1[3] = __float2half(C[j_outer_outer_inner_group * 16 + 6 + 1]);
    D_lanes_1[4] = __float2half(C[j_outer_outer_inner_group * 16 + 10]);
    D_lanes_1[5] = __float2half(C[j_outer_outer_inner_group * 16 + 10 + 1]);
    D_lanes_1[6] = __float2half(C[j_outer_outer_inner_group * 16 + 14]);
    D_lanes_1[7] = __float2half(C[j_outer_outer_inner_group * 16 + 14 + 1]);
    exchange_pairs_f16(D_lanes_1[0], tx);
    __align__(16) __half lanes_1[8] = {D_lanes_1[0], D_lanes_1[1], D_lanes_1[2], D_lanes_1[3], D_lanes_1[4], D_lanes_1[5], D_lanes_1[6], D_lanes_1[7]};
    *(uint4*)(D + bx * 8192 + tz * 2048 + ty * 128 + j_outer_outer_inner_group * 32 + tx * 8 + 1024) = *(const uint4*)lanes_1;
  }
}
