// matmul_wgmma_passed_cuda_kernel0(A, B, D) grid (4, 1, 1) block (4, 8, 4) shared 69632
#include <cuda_pipeline.h>

// helper wgmma_fence

// helper wgmma_m64n64k8_tf32_passed

// helper copy_or_zero

extern "C" __global__ void __launch_bounds__(128)
matmul_wgmma_passed_cuda_kernel0(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ D) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  float* const A_shared = (float*)(dynamic_shared);
  float* const B_shared = (float*)(dynamic_shared + 36864);
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int tz = threadIdx.z;
  float C[32];
  float A_shared_passed[16];
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
    __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 576 + tz * 144 + (ty >> 2) * 72 + (ty & 3) * 16 + tx * 4, A + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 2) * 128 + (bx >> 1) * 64 + (ty & 3) * 16 + tx * 4, 16);
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 512 + tz * 128 + (ty >> 1) * 32 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 4, B + (bx & 1) * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + (ty & 1) * 16 + tx * 4, 16);
  }
  __pipeline_commit();
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 576 + tz * 144 + (ty >> 2) * 72 + (ty & 3) * 16 + tx * 4 + 2304, A + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 2) * 128 + (bx >> 1) * 64 + (ty & 3) * 16 + tx * 4 + 4096, 16);
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 512 + tz * 128 + (ty >> 1) * 32 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 4 + 2048, B + (bx & 1) * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 2048 + tz * 512 + (ty >> 1) * 128 + (ty & 1) * 16 + tx * 4 + 32, 16);
  }
  __pipeline_commit();
  for (int k_outer_outer = 0; k_outer_outer < 4; ++k_outer_outer) {
    __pipeline_wait_prior(1);
    wgmma_show();
    __syncthreads();
    wgmma_wait<1>();
    A_shared_passed[0] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty];
    A_shared_passed[1] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 8];
    A_shared_passed[2] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 288];
    A_shared_passed[3] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 296];
    A_shared_passed[4] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 576];
    A_shared_passed[5] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 584];
    A_shared_passed[6] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 864];
    A_shared_passed[7] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 872];
    wgmma_fence();
    wgmma_m64n64k8_tf32_passed(C[0], A_shared_passed[0], A_shared_passed[1], A_shared_passed[2], A_shared_passed[3], B_shared[k_outer_outer * 2048], 0, 8192);
    wgmma_m64n64k8_tf32_passed(C[0], A_shared_passed[4], A_shared_passed[5], A_shared_passed[6], A_shared_passed[7], B_shared[k_outer_outer * 2048], 8, 8192);
    wgmma_commit();
    copy_or_zero(A_shared + ((k_outer_outer + 2) & 3) * 2304 + tz * 144 + (ty >> 2) * 72 + (ty & 3) * 16 + tx * 4, A + k_outer_outer * 4096 + tz * 256 + (ty >> 2) * 128 + (bx >> 1) * 64 + (ty & 3) * 16 + tx * 4 + 8192, k_outer_outer < 2);
    copy_or_zero(A_shared + ((k_outer_outer + 2) & 3) * 2304 + tz * 144 + (ty >> 2) * 72 + (ty & 3) * 16 + tx * 4 + 576, A + k_outer_outer * 4096 + tz * 256 + (ty >> 2) * 128 + (bx >> 1) * 64 + (ty & 3) * 16 + tx * 4 + 9216, k_outer_outer < 2);
    copy_or_zero(A_shared + ((k_outer_outer + 2) & 3) * 2304 + tz * 144 + (ty >> 2) * 72 + (ty & 3) * 16 + tx * 4 + 1152, A + k_outer_outer * 4096 + tz * 256 + (ty >> 2) * 128 + (bx >> 1) * 64 + (ty & 3) * 16 + tx * 4 + 10240, k_outer_outer < 2);
    copy_or_zero(A_shared + ((k_outer_outer + 2) & 3) * 2304 + tz * 144 + (ty >> 2) * 72 + (ty & 3) * 16 + tx * 4 + 1728, A + k_outer_outer * 4096 + tz * 256 + (ty >> 2) * 128 + (bx >> 1) * 64 + (ty & 3) * 16 + tx * 4 + 11264, k_outer_outer < 2);
    copy_or_zero(B_shared + ((k_outer_outer + 2) & 3) * 2048 + tz * 128 + (ty >> 1) * 32 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 4, B + (bx & 1) * 8192 + tz * 512 + (ty >> 1) * 128 + k_outer_outer * 32 + (ty & 1) * 16 + tx * 4 + 64, k_outer_outer < 2);
    copy_or_zero(B_shared + ((k_outer_outer + 2) & 3) * 2048 + tz * 128 + (ty >> 1) * 32 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 4 + 512, B + (bx & 1) * 8192 + tz * 512 + (ty >> 1) * 128 + k_outer_outer * 32 + (ty & 1) * 16 + tx * 4 + 2112, k_outer_outer < 2);
    copy_or_zero(B_shared + ((k_outer_outer + 2) & 3) * 2048 + tz * 128 + (ty >> 1) * 32 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 4 + 1024, B + (bx & 1) * 8192 + tz * 512 + (ty >> 1) * 128 + k_outer_outer * 32 + (ty & 1) * 16 + tx * 4 + 4160, k_outer_outer < 2);
    copy_or_zero(B_shared + ((k_outer_outer + 2) & 3) * 2048 + tz * 128 + (ty >> 1) * 32 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 4 + 1536, B + (bx & 1) * 8192 + tz * 512 + (ty >> 1) * 128 + k_outer_outer * 32 + (ty & 1) * 16 + tx * 4 + 6208, k_outer_outer < 2);
    __pipeline_commit();
    wgmma_wait<1>();
    A_shared_passed[8] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 1152];
    A_shared_passed[9] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 1160];
    A_shared_passed[10] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 1440];
    A_shared_passed[11] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 1448];
    A_shared_passed[12] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 1728];
    A_shared_passed[13] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 1736];
    A_shared_passed[14] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 2016];
    A_shared_passed[15] = A_shared[k_outer_outer * 2304 + tx * 72 + tz * 16 + ty + 2024];
    wgmma_fence();
    wgmma_m64n64k8_tf32_passed(C[0], A_shared_passed[8], A_shared_passed[9], A_shared_passed[10], A_shared_passed[11], B_shared[k_outer_outer * 2048], 16, 8192);
    wgmma_m64n64k8_tf32_passed(C[0], A_shared_passed[12], A_shared_passed[13], A_shared_passed[14], A_shared_passed[15], B_shared[k_outer_outer * 2048], 24, 8192);
    wgmma_commit();
  }
  __pipeline_wait_prior(0);
  wgmma_wait<0>();
  wgmma_sums<32>(C[0]);
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
