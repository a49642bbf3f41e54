// matmul_tensor_core_cuda_kernel0(A, B, D) grid (4, 1, 1) block (4, 8, 2) shared 0
#include <cuda_fp16.h>

// helper mma_m16n8k16_f16

extern "C" __global__ void __launch_bounds__(64)
matmul_tensor_core_cuda_kernel0(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    float* __restrict__ D) {
  __shared__ __align__(16) __half A_shared[1024];
  __shared__ __align__(16) __half B_shared[512];
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int tz = threadIdx.z;
  float C[32];
  __half B_shared_fragment[16];
  #pragma unroll
  for (int j_init = 0; j_init < 8; ++j_init) {
    C[j_init] = 0.0f;
    C[j_init + 8] = 0.0f;
    C[j_init + 16] = 0.0f;
    C[j_init + 24] = 0.0f;
  }
  for (int k_outer = 0; k_outer < 4; ++k_outer) {
    __syncthreads();
    for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 2; ++ax0_ax1_fused_outer_outer_outer_outer) {
      *(uint4*)(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 512 + tz * 256 + ty * 32 + tx * 8) = *(const uint4*)(A + (bx >> 1) * 4096 + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 1024 + ty * 128 + (tx >> 1) * 64 + k_outer * 16 + (tx & 1) * 8);
    }
    *(uint4*)(B_shared + tz * 256 + ty * 32 + tx * 8) = *(const uint4*)(B + k_outer * 1024 + tz * 512 + ty * 64 + (bx & 1) * 32 + tx * 8);
    __syncthreads();
    {
      __align__(8) __half B_shared_lanes[4];
      *(uint2*)B_shared_lanes = *(const uint2*)(B_shared + tx * 64 + ty * 4);
      B_shared_fragment[0] = B_shared_lanes[0];
      B_shared_fragment[1] = B_shared_lanes[1];
      B_shared_fragment[2] = B_shared_lanes[2];
      B_shared_fragment[3] = B_shared_lanes[3];
    }
    {
      __align__(8) __half B_shared_lanes[4];
      *(uint2*)B_shared_lanes = *(const uint2*)(B_shared + tx * 64 + ty * 4 + 32);
      B_shared_fragment[4] = B_shared_lanes[0];
      B_shared_fragment[5] = B_shared_lanes[1];
      B_shared_fragment[6] = B_shared_lanes[2];
      B_shared_fragment[7] = B_shared_lanes[3];
    }
    {
      __align__(8) __half B_shared_lanes[4];
      *(uint2*)B_shared_lanes = *(const uint2*)(B_shared + tx * 64 + ty * 4 + 256);
      B_shared_fragment[8] = B_shared_lanes[0];
      B_shared_fragment[9] = B_shared_lanes[1];
      B_shared_fragment[10] = B_shared_lanes[2];
      B_shared_fragment[11] = B_shared_lanes[3];
    }
    {
      __align__(8) __half B_shared_lanes[4];
      *(uint2*)B_shared_lanes = *(const uint2*)(B_shared + tx * 64 + ty * 4 + 288);
      B_shared_fragment[12] = B_shared_lanes[0];
      B_shared_fragment[13] = B_shared_lanes[1];
      B_shared_fragment[14] = B_shared_lanes[2];
      B_shared_fragment[15] = B_shared_lanes[3];
    }
    mma_m16n8k16_f16(C[0], C[4], C[8], C[12], A_shared[tz * 512 + ty * 16 + tx * 2], A_shared[tz * 512 + ty * 16 + tx * 2 + 1], A_shared[tz * 512 + ty * 16 + tx * 2 + 128], A_shared[tz * 512 + ty * 16 + tx * 2 + 129], A_shared[tz * 512 + ty * 16 + tx * 2 + 8], A_shared[tz * 512 + ty * 16 + tx * 2 + 9], A_shared[tz * 512 + ty * 16 + tx * 2 + 136], A_shared[tz * 512 + ty * 16 + tx * 2 + 137], B_shared_fragment[0], B_shared_fragment[4], B_shared_fragment[8], B_shared_fragment[12]);
    mma_m16n8k16_f16(C[1], C[5], C[9], C[13], A_shared[tz * 512 + ty * 16 + tx * 2], A_shared[tz * 512 + ty * 16 + tx * 2 + 1], A_shared[tz * 512 + ty * 16 + tx * 2 + 128], A_shared[tz * 512 + ty * 16 + tx * 2 + 129], A_shared[tz * 512 + ty * 16 + tx * 2 + 8], A_shared[tz * 512 + ty * 16 + tx * 2 + 9], A_shared[tz * 512 + ty * 16 + tx * 2 + 136], A_shared[tz * 512 + ty * 16 + tx * 2 + 137], B_shared_fragment[1], B_shared_fragment[5], B_shared_fragment[9], B_shared_fragment[13]);
    mma_m16n8k16_f16(C[2], C[6], C[10], C[14], A_shared[tz * 512 + ty * 16 + tx * 2], A_shared[tz * 512 + ty * 16 + tx * 2 + 1], A_shared[tz * 512 + ty * 16 + tx * 2 + 128], A_shared[tz * 512 + ty * 16 + tx * 2 + 129], A_shared[tz * 512 + ty * 16 + tx * 2 + 8], A_shared[tz * 512 + ty * 16 + tx * 2 + 9], A_shared[tz * 512 + ty * 16 + tx * 2 + 136], A_shared[tz * 512 + ty * 16 + tx * 2 + 137], B_shared_fragment[2], B_shared_fragment[6], B_shared_fragment[10], B_shared_fragment[14]);
    mma_m16n8k16_f16(C[3], C[7], C[11], C[15], A_shared[tz * 512 + ty * 16 + tx * 2], A_shared[tz * 512 + ty * 16 + tx * 2 + 1], A_shared[tz * 512 + ty * 16 + tx * 2 + 128], A_shared[tz * 512 + ty * 16 + tx * 2 + 129], A_shared[tz * 512 + ty * 16 + tx * 2 + 8], A_shared[tz * 512 + ty * 16 + tx * 2 + 9], A_shared[tz * 512 + ty * 16 + tx * 2 + 136], A_shared[tz * 512 + ty * 16 + tx * 2 + 137], B_shared_fragment[3], B_shared_fragment[7], B_shared_fragment[11], B_shared_fragment[15]);
    mma_m16n8k16_f16(C[16], C[20], C[24], C[28], A_shared[tz * 512 + ty * 16 + tx * 2 + 256], A_shared[tz * 512 + ty * 16 + tx * 2 + 257], A_shared[tz * 512 + ty * 16 + tx * 2 + 384], A_shared[tz * 512 + ty * 16 + tx * 2 + 385], A_shared[tz * 512 + ty * 16 + tx * 2 + 264], A_shared[tz * 512 + ty * 16 + tx * 2 + 265], A_shared[tz * 512 + ty * 16 + tx * 2 + 392], A_shared[tz * 512 + ty * 16 + tx * 2 + 393], B_shared_fragment[0], B_shared_fragment[4], B_shared_fragment[8], B_shared_fragment[12]);
    mma_m16n8k16_f16(C[17], C[21], C[25], C[29], A_shared[tz * 512 + ty * 16 + tx * 2 + 256], A_shared[tz * 512 + ty * 16 + tx * 2 + 257], A_shared[tz * 512 + ty * 16 + tx * 2 + 384], A_shared[tz * 512 + ty * 16 + tx * 2 + 385], A_shared[tz * 512 + ty * 16 + tx * 2 + 264], A_shared[tz * 512 + ty * 16 + tx * 2 + 265], A_shared[tz * 512 + ty * 16 + tx * 2 + 392], A_shared[tz * 512 + ty * 16 + tx * 2 + 393], B_shared_fragment[1], B_shared_fragment[5], B_shared_fragment[9], B_shared_fragment[13]);
    mma_m16n8k16_f16(C[18], C[22], C[26], C[30], A_shared[tz * 512 + ty * 16 + tx * 2 + 256], A_shared[tz * 512 + ty * 16 + tx * 2 + 257], A_shared[tz * 512 + ty * 16 + tx * 2 + 384], A_shared[tz * 512 + ty * 16 + tx * 2 + 385], A_shared[tz * 512 + ty * 16 + tx * 2 + 264], A_shared[tz * 512 + ty * 16 + tx * 2 + 265], A_shared[tz * 512 + ty * 16 + tx * 2 + 392], A_shared[tz * 512 + ty * 16 + tx * 2 + 393], B_shared_fragment[2], B_shared_fragment[6], B_shared_fragment[10], B_shared_fragment[14]);
    mma_m16n8k16_f16(C[19], C[23], C[27], C[31], A_shared[tz * 512 + ty * 16 + tx * 2 + 256], A_shared[tz * 512 + ty * 16 + tx * 2 + 257], A_shared[tz * 512 + ty * 16 + tx * 2 + 384], A_shared[tz * 512 + ty * 16 + tx * 2 + 385], A_shared[tz * 512 + ty * 16 + tx * 2 + 264], A_shared[tz * 512 + ty * 16 + tx * 2 + 265], A_shared[tz * 512 + ty * 16 + tx * 2 + 392], A_shared[tz * 512 + ty * 16 + tx * 2 + 393], B_shared_fragment[3], B_shared_fragment[7], B_shared_fragment[11], B_shared_fragment[15]);
  }
  *(float4*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8) = make_float4(C[0], C[1], C[2], C[3]);
  *(float4*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 4) = make_float4(C[4], C[5], C[6], C[7]);
  *(float4*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 512) = make_float4(C[8], C[9], C[10], C[11]);
  *(float4*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 516) = make_float4(C[12], C[13], C[14], C[15]);
  *(float4*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 1024) = make_float4(C[16], C[17], C[18], C[19]);
  *(float4*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 1028) = make_float4(C[20], C[21], C[22], C[23]);
  *(float4*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 1536) = make_float4(C[24], C[25], C[26], C[27]);
  *(float4*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 1540) = make_float4(C[28], C[29], C[30], C[31]);
}
