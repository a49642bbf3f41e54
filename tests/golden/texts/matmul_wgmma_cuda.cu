// matmul_wgmma_cuda_kernel0(A, B, D) grid (4, 1, 1) block (4, 8, 4) shared 65536
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

// helper wgmma_fence

// helper wgmma_m64n64k16_f16

extern "C" __global__ void __launch_bounds__(128)
matmul_wgmma_cuda_kernel0(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    __half* __restrict__ D) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  __half* const A_shared = (__half*)(dynamic_shared);
  __half* const B_shared = (__half*)(dynamic_shared + 32768);
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int tz = threadIdx.z;
  float C[32];
  #pragma unroll
  for (int j_init = 0; j_init < 2; ++j_init) {
    C[j_init] = 0.0f;
    C[j_init + 2] = 0.0f;
    C[j_init + 4] = 0.0f;
    C[j_init + 6] = 0.0f;
    C[j_init + 8] = 0.0f;
    C[j_init + 10] = 0.0f;
    C[j_init + 12] = 0.0f;
    C[j_init + 14] = 0.0f;
    C[j_init + 16] = 0.0f;
    C[j_init + 18] = 0.0f;
    C[j_init + 20] = 0.0f;
    C[j_init + 22] = 0.0f;
    C[j_init + 24] = 0.0f;
    C[j_init + 26] = 0.0f;
    C[j_init + 28] = 0.0f;
    C[j_init + 30] = 0.0f;
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, A + (bx >> 1) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8, 16);
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, B + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + (bx & 1) * 64 + (ty & 1) * 32 + tx * 8, 16);
  }
  __pipeline_commit();
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 4096, A + (bx >> 1) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8 + 64, 16);
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 4096, B + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + (bx & 1) * 64 + (ty & 1) * 32 + tx * 8 + 8192, 16);
  }
  __pipeline_commit();
  for (int k_outer_outer = 0; k_outer_outer < 4; ++k_outer_outer) {
    __pipeline_wait_prior(1);
    wgmma_show();
    __syncthreads();
    wgmma_fence();
    wgmma_m64n64k16_f16<0, 1>(C[0], A_shared[k_outer_outer * 4096], 0, B_shared[k_outer_outer * 4096], 0, 8192, 8192);
    wgmma_m64n64k16_f16<0, 1>(C[0], A_shared[k_outer_outer * 4096], 16, B_shared[k_outer_outer * 4096], 1024, 8192, 8192);
    wgmma_m64n64k16_f16<0, 1>(C[0], A_shared[k_outer_outer * 4096], 32, B_shared[k_outer_outer * 4096], 2048, 8192, 8192);
    wgmma_m64n64k16_f16<0, 1>(C[0], A_shared[k_outer_outer * 4096], 48, B_shared[k_outer_outer * 4096], 3072, 8192, 8192);
    wgmma_commit();
    if (k_outer_outer < 2) {
      for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
        __pipeline_memcpy_async(A_shared + ((k_outer_outer + 2) & 3) * 4096 + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, A + (bx >> 1) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + k_outer_outer * 64 + (ty & 1) * 32 + tx * 8 + 128, 16);
      }
      for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
        __pipeline_memcpy_async(B_shared + ((k_outer_outer + 2) & 3) * 4096 + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, B + k_outer_outer * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + (bx & 1) * 64 + (ty & 1) * 32 + tx * 8 + 16384, 16);
      }
    }
    __pipeline_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
  wgmma_sums<32>(C[0]);
  __align__(4) __half lanes[2] = {__float2half(C[0]), __float2half(C[1])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2) = *(const unsigned int*)lanes;
  __align__(4) __half lanes_1[2] = {__float2half(C[2]), __float2half(C[3])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1024) = *(const unsigned int*)lanes_1;
  __align__(4) __half lanes_2[2] = {__float2half(C[4]), __float2half(C[5])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 8) = *(const unsigned int*)lanes_2;
  __align__(4) __half lanes_3[2] = {__float2half(C[6]), __float2half(C[7])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1032) = *(const unsigned int*)lanes_3;
  __align__(4) __half lanes_4[2] = {__float2half(C[8]), __float2half(C[9])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 16) = *(const unsigned int*)lanes_4;
  __align__(4) __half lanes_5[2] = {__float2half(C[10]), __float2half(C[11])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1040) = *(const unsigned int*)lanes_5;
  __align__(4) __half lanes_6[2] = {__float2half(C[12]), __float2half(C[13])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 24) = *(const unsigned int*)lanes_6;
  __align__(4) __half lanes_7[2] = {__float2half(C[14]), __float2half(C[15])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1048) = *(const unsigned int*)lanes_7;
  __align__(4) __half lanes_8[2] = {__float2half(C[16]), __float2half(C[17])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 32) = *(const unsigned int*)lanes_8;
  __align__(4) __half lanes_9[2] = {__float2half(C[18]), __float2half(C[19])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1056) = *(const unsigned int*)lanes_9;
  __align__(4) __half lanes_10[2] = {__float2half(C[20]), __float2half(C[21])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 40) = *(const unsigned int*)lanes_10;
  __align__(4) __half lanes_11[2] = {__float2half(C[22]), __float2half(C[23])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1064) = *(const unsigned int*)lanes_11;
  __align__(4) __half lanes_12[2] = {__float2half(C[24]), __float2half(C[25])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 48) = *(const unsigned int*)lanes_12;
  __align__(4) __half lanes_13[2] = {__float2half(C[26]), __float2half(C[27])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1072) = *(const unsigned int*)lanes_13;
  __align__(4) __half lanes_14[2] = {__float2half(C[28]), __float2half(C[29])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 56) = *(const unsigned int*)lanes_14;
  __align__(4) __half lanes_15[2] = {__float2half(C[30]), __float2half(C[31])};
  *(unsigned int*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1080) = *(const unsigned int*)lanes_15;
}
