// matmul_tensor_core_along_steps_cuda_kernel0(A, B, D) grid (4, 1, 1) block (4, 8, 2) shared 0
#include <cuda_fp16.h>

// helper mma_m16n8k16_f16

extern "C" __global__ void __launch_bounds__(64)
matmul_tensor_core_along_steps_cuda_kernel0(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    __half* __restrict__ D) {
  __shared__ __align__(16) __half A_shared[1024];
  __shared__ __align__(16) __half B_shared[576];
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
    *(uint4*)(B_shared + tz * 288 + ty * 32 + (ty >> 2) * 16 + tx * 8) = *(const uint4*)(B + (bx & 1) * 2048 + tz * 1024 + ty * 128 + (tx >> 1) * 64 + k_outer * 16 + (tx & 1) * 8);
    __syncthreads();
    B_shared_fragment[0] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2];
    B_shared_fragment[1] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 32];
    B_shared_fragment[2] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 64];
    B_shared_fragment[3] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 96];
    B_shared_fragment[4] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 1];
    B_shared_fragment[5] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 33];
    B_shared_fragment[6] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 65];
    B_shared_fragment[7] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 97];
    B_shared_fragment[8] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 8];
    B_shared_fragment[9] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 40];
    B_shared_fragment[10] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 72];
    B_shared_fragment[11] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 104];
    B_shared_fragment[12] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 9];
    B_shared_fragment[13] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 41];
    B_shared_fragment[14] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 73];
    B_shared_fragment[15] = B_shared[(ty >> 1) * 144 + (ty & 1) * 16 + tx * 2 + 105];
    mma_m16n8k16_f16(C[0], C[1], C[8], C[9], A_shared[tz * 512 + ty * 16 + tx * 2], A_shared[tz * 512 + ty * 16 + tx * 2 + 1], A_shared[tz * 512 + ty * 16 + tx * 2 + 128], A_shared[tz * 512 + ty * 16 + tx * 2 + 129], A_shared[tz * 512 + ty * 16 + tx * 2 + 8], A_shared[tz * 512 + ty * 16 + tx * 2 + 9], A_shared[tz * 512 + ty * 16 + tx * 2 + 136], A_shared[tz * 512 + ty * 16 + tx * 2 + 137], B_shared_fragment[0], B_shared_fragment[4], B_shared_fragment[8], B_shared_fragment[12]);
    mma_m16n8k16_f16(C[2], C[3], C[10], C[11], A_shared[tz * 512 + ty * 16 + tx * 2], A_shared[tz * 512 + ty * 16 + tx * 2 + 1], A_shared[tz * 512 + ty * 16 + tx * 2 + 128], A_shared[tz * 512 + ty * 16 + tx * 2 + 129], A_shared[tz * 512 + ty * 16 + tx * 2 + 8], A_shared[tz * 512 + ty * 16 + tx * 2 + 9], A_shared[tz * 512 + ty * 16 + tx * 2 + 136], A_shared[tz * 512 + ty * 16 + tx * 2 + 137], B_shared_fragment[1], B_shared_fragment[5], B_shared_fragment[9], B_shared_fragment[13]);
    mma_m16n8k16_f16(C[4], C[5], C[12], C[13], A_shared[tz * 512 + ty * 16 + tx * 2], A_shared[tz * 512 + ty * 16 + tx * 2 + 1], A_shared[tz * 512 + ty * 16 + tx * 2 + 128], A_shared[tz * 512 + ty * 16 + tx * 2 + 129], A_shared[tz * 512 + ty * 16 + tx * 2 + 8], A_shared[tz * 512 + ty * 16 + tx * 2 + 9], A_shared[tz * 512 + ty * 16 + tx * 2 + 136], A_shared[tz * 512 + ty * 16 + tx * 2 + 137], B_shared_fragment[2], B_shared_fragment[6], B_shared_fragment[10], B_shared_fragment[14]);
    mma_m16n8k16_f16(C[6], C[7], C[14], C[15], A_shared[tz * 512 + ty * 16 + tx * 2], A_shared[tz * 512 + ty * 16 + tx * 2 + 1], A_shared[tz * 512 + ty * 16 + tx * 2 + 128], A_shared[tz * 512 + ty * 16 + tx * 2 + 129], A_shared[tz * 512 + ty * 16 + tx * 2 + 8], A_shared[tz * 512 + ty * 16 + tx * 2 + 9], A_shared[tz * 512 + ty * 16 + tx * 2 + 136], A_shared[tz * 512 + ty * 16 + tx * 2 + 137], B_shared_fragment[3], B_shared_fragment[7], B_shared_fragment[11], B_shared_fragment[15]);
    mma_m16n8k16_f16(C[16], C[17], C[24], C[25], A_shared[tz * 512 + ty * 16 + tx * 2 + 256], A_shared[tz * 512 + ty * 16 + tx * 2 + 257], A_shared[tz * 512 + ty * 16 + tx * 2 + 384], A_shared[tz * 512 + ty * 16 + tx * 2 + 385], A_shared[tz * 512 + ty * 16 + tx * 2 + 264], A_shared[tz * 512 + ty * 16 + tx * 2 + 265], A_shared[tz * 512 + ty * 16 + tx * 2 + 392], A_shared[tz * 512 + ty * 16 + tx * 2 + 393], B_shared_fragment[0], B_shared_fragment[4], B_shared_fragment[8], B_shared_fragment[12]);
    mma_m16n8k16_f16(C[18], C[19], C[26], C[27], A_shared[tz * 512 + ty * 16 + tx * 2 + 256], A_shared[tz * 512 + ty * 16 + tx * 2 + 257], A_shared[tz * 512 + ty * 16 + tx * 2 + 384], A_shared[tz * 512 + ty * 16 + tx * 2 + 385], A_shared[tz * 512 + ty * 16 + tx * 2 + 264], A_shared[tz * 512 + ty * 16 + tx * 2 + 265], A_shared[tz * 512 + ty * 16 + tx * 2 + 392], A_shared[tz * 512 + ty * 16 + tx * 2 + 393], B_shared_fragment[1], B_shared_fragment[5], B_shared_fragment[9], B_shared_fragment[13]);
    mma_m16n8k16_f16(C[20], C[21], C[28], C[29], A_shared[tz * 512 + ty * 16 + tx * 2 + 256], A_shared[tz * 512 + ty * 16 + tx * 2 + 257], A_shared[tz * 512 + ty * 16 + tx * 2 + 384], A_shared[tz * 512 + ty * 16 + tx * 2 + 385], A_shared[tz * 512 + ty * 16 + tx * 2 + 264], A_shared[tz * 512 + ty * 16 + tx * 2 + 265], A_shared[tz * 512 + ty * 16 + tx * 2 + 392], A_shared[tz * 512 + ty * 16 + tx * 2 + 393], B_shared_fragment[2], B_shared_fragment[6], B_shared_fragment[10], B_shared_fragment[14]);
    mma_m16n8k16_f16(C[22], C[23], C[30], C[31], A_shared[tz * 512 + ty * 16 + tx * 2 + 256], A_shared[tz * 512 + ty * 16 + tx * 2 + 257], A_shared[tz * 512 + ty * 16 + tx * 2 + 384], A_shared[tz * 512 + ty * 16 + tx * 2 + 385], A_shared[tz * 512 + ty * 16 + tx * 2 + 264], A_shared[tz * 512 + ty * 16 + tx * 2 + 265], A_shared[tz * 512 + ty * 16 + tx * 2 + 392], A_shared[tz * 512 + ty * 16 + tx * 2 + 393], B_shared_fragment[3], B_shared_fragment[7], B_shared_fragment[11], B_shared_fragment[15]);
  }
  __align__(8) __half lanes[4] = {__float2half(C[0]), __float2half(C[1]), __float2half(C[2]), __float2half(C[3])};
  *(uint2*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8) = *(const uint2*)lanes;
  __align__(8) __half lanes_1[4] = {__float2half(C[4]), __float2half(C[5]), __float2half(C[6]), __float2half(C[7])};
  *(uint2*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 4) = *(const uint2*)lanes_1;
  __align__(8) __half lanes_2[4] = {__float2half(C[8]), __float2half(C[9]), __float2half(C[10]), __float2half(C[11])};
  *(uint2*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 512) = *(const uint2*)lanes_2;
  __align__(8) __half lanes_3[4] = {__float2half(C[12]), __float2half(C[13]), __float2half(C[14]), __float2half(C[15])};
  *(uint2*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 516) = *(const uint2*)lanes_3;
  __align__(8) __half lanes_4[4] = {__float2half(C[16]), __float2half(C[17]), __float2half(C[18]), __float2half(C[19])};
  *(uint2*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 1024) = *(const uint2*)lanes_4;
  __align__(8) __half lanes_5[4] = {__float2half(C[20]), __float2half(C[21]), __float2half(C[22]), __float2half(C[23])};
  *(uint2*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 1028) = *(const uint2*)lanes_5;
  __align__(8) __half lanes_6[4] = {__float2half(C[24]), __float2half(C[25]), __float2half(C[26]), __float2half(C[27])};
  *(uint2*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 1536) = *(const uint2*)lanes_6;
  __align__(8) __half lanes_7[4] = {__float2half(C[28]), __float2half(C[29]), __float2half(C[30]), __float2half(C[31])};
  *(uint2*)(D + (bx >> 1) * 4096 + tz * 2048 + ty * 64 + (bx & 1) * 32 + tx * 8 + 1540) = *(const uint2*)lanes_7;
}
