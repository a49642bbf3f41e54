// matmul_wgmma_tf32_cuda_kernel0(A, B, D) grid (4, 1, 1) block (4, 8, 4) shared 0
#include <cuda_pipeline.h>

// helper wgmma_fence

// helper wgmma_m64n64k8_tf32

extern "C" __global__ void __launch_bounds__(128)
matmul_wgmma_tf32_cuda_kernel0(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ D) {
  __shared__ __align__(1024) float A_shared[4096];
  __shared__ __align__(1024) float B_shared[4096];
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
    __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 512 + tz * 128 + (ty >> 1) * 32 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 4, A + (bx >> 1) * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + (ty & 1) * 16 + tx * 4, 16);
  }
  for (int ax0_outer_ax1_outer_fused_outer = 0; ax0_outer_ax1_outer_fused_outer < 16; ++ax0_outer_ax1_outer_fused_outer) {
    __pipeline_memcpy_async(B_shared + (ax0_outer_ax1_outer_fused_outer & 1) * 1024 + tz * 256 + ty * 32 + ((ax0_outer_ax1_outer_fused_outer >> 1) ^ ty) * 4 + tx, B + (ax0_outer_ax1_outer_fused_outer >> 1) * 512 + tx * 128 + (bx & 1) * 64 + (ax0_outer_ax1_outer_fused_outer & 1) * 32 + tz * 8 + ty, 4);
  }
  __pipeline_commit();
  for (int k_outer_outer = 0; k_outer_outer < 4; ++k_outer_outer) {
    __pipeline_wait_prior(0);
    wgmma_show();
    __syncthreads();
    if (k_outer_outer < 3) {
      for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
        __pipeline_memcpy_async(A_shared + ((k_outer_outer + 1) & 1) * 2048 + ax0_ax1_fused_outer_outer_outer_outer * 512 + tz * 128 + (ty >> 1) * 32 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 4, A + (bx >> 1) * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + k_outer_outer * 32 + (ty & 1) * 16 + tx * 4 + 32, 16);
      }
      for (int ax0_outer_ax1_outer_fused_outer = 0; ax0_outer_ax1_outer_fused_outer < 16; ++ax0_outer_ax1_outer_fused_outer) {
        __pipeline_memcpy_async(B_shared + ((k_outer_outer + 1) & 1) * 2048 + (ax0_outer_ax1_outer_fused_outer & 1) * 1024 + tz * 256 + ty * 32 + ((ax0_outer_ax1_outer_fused_outer >> 1) ^ ty) * 4 + tx, B + k_outer_outer * 4096 + (ax0_outer_ax1_outer_fused_outer >> 1) * 512 + tx * 128 + (bx & 1) * 64 + (ax0_outer_ax1_outer_fused_outer & 1) * 32 + tz * 8 + ty + 4096, 4);
      }
    }
    __pipeline_commit();
    wgmma_fence();
    wgmma_m64n64k8_tf32<0, 0>(C[0], A_shared[(k_outer_outer & 1) * 2048], 0, B_shared[(k_outer_outer & 1) * 2048], 0, 8192, 8192);
    wgmma_m64n64k8_tf32<0, 0>(C[0], A_shared[(k_outer_outer & 1) * 2048], 8, B_shared[(k_outer_outer & 1) * 2048], 8, 8192, 8192);
    wgmma_m64n64k8_tf32<0, 0>(C[0], A_shared[(k_outer_outer & 1) * 2048], 16, B_shared[(k_outer_outer & 1) * 2048], 16, 8192, 8192);
    wgmma_m64n64k8_tf32<0, 0>(C[0], A_shared[(k_outer_outer & 1) * 2048], 24, B_shared[(k_outer_outer & 1) * 2048], 24, 8192, 8192);
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_sums<32>(C[0]);
  }
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2) = make_float2(C[0], C[1]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1024) = make_float2(C[2], C[3]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 8) = make_float2(C[4], C[5]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1032) = make_float2(C[6], C[7]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 16) = make_float2(C[8], C[9]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1040) = make_float2(C[10], C[11]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 24) = make_float2(C[12], C[13]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1048) = make_float2(C[14], C[15]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 32) = make_float2(C[16], C[17]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1056) = make_float2(C[18], C[19]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 40) = make_float2(C[20], C[21]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1064) = make_float2(C[22], C[23]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 48) = make_float2(C[24], C[25]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1072) = make_float2(C[26], C[27]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 56) = make_float2(C[28], C[29]);
  *(float2*)(D + (bx >> 1) * 8192 + tz * 2048 + ty * 128 + (bx & 1) * 64 + tx * 2 + 1080) = make_float2(C[30], C[31]);
}
