// matmul_wgmma_in_turn_cuda_kernel0(A, B, D) grid (3, 1, 1) block (4, 8, 4) shared 0
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

// helper wgmma_fence

// helper wgmma_m64n32k16_f16

extern "C" __global__ void __launch_bounds__(128)
matmul_wgmma_in_turn_cuda_kernel0(
    const __half* __restrict__ A,
    const __half* __restrict__ B,
    float* __restrict__ D) {
  __shared__ __align__(1024) __half A_shared[16384];
  __shared__ __align__(1024) __half B_shared[8192];
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  const int tz = threadIdx.z;
  float C[16];
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, A + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8, 16);
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 2; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, B + bx * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8, 16);
  }
  __pipeline_commit();
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 4096, A + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8 + 64, 16);
  }
  for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 2; ++ax0_ax1_fused_outer_outer_outer_outer) {
    __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 2048, B + bx * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8 + 64, 16);
  }
  __pipeline_commit();
  for (int i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer = 0; i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer < 3; ++i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer) {
    if ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2 < 2) {
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
      }
    }
    for (int k_outer_outer = 0; k_outer_outer < 4; ++k_outer_outer) {
      __pipeline_wait_prior(1);
      wgmma_show();
      __syncthreads();
      if ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2 < 2) {
        wgmma_fence();
        wgmma_m64n32k16_f16<0, 0>(C[0], A_shared[k_outer_outer * 4096], 0, B_shared[k_outer_outer * 2048], 0, 8192, 4096);
        wgmma_m64n32k16_f16<0, 0>(C[0], A_shared[k_outer_outer * 4096], 16, B_shared[k_outer_outer * 2048], 16, 8192, 4096);
        wgmma_m64n32k16_f16<0, 0>(C[0], A_shared[k_outer_outer * 4096], 32, B_shared[k_outer_outer * 2048], 32, 8192, 4096);
        wgmma_m64n32k16_f16<0, 0>(C[0], A_shared[k_outer_outer * 4096], 48, B_shared[k_outer_outer * 2048], 48, 8192, 4096);
        wgmma_commit();
      }
      if (k_outer_outer < 2) {
        if ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2 < 2) {
          for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
            __pipeline_memcpy_async(A_shared + ((k_outer_outer + 2) & 3) * 4096 + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, A + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + k_outer_outer * 64 + (ty & 1) * 32 + tx * 8 + 128, 16);
          }
        }
        for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 2; ++ax0_ax1_fused_outer_outer_outer_outer) {
          __pipeline_memcpy_async(B_shared + ((k_outer_outer + 2) & 3) * 2048 + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, B + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + k_outer_outer * 64 + (ty & 1) * 32 + tx * 8 + 128, 16);
        }
      }
      __pipeline_commit();
      wgmma_wait<1>();
    }
    wgmma_wait<0>();
    wgmma_sums<16>(C[0]);
    wgmma_show();
    __syncthreads();
    if (i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer < 2) {
      if ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) >> 2 < 2) {
        for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
          __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, A + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) >> 2) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8, 16);
        }
      }
      for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 2; ++ax0_ax1_fused_outer_outer_outer_outer) {
        __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8, B + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) & 3) * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8, 16);
      }
      __pipeline_commit();
      if ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) >> 2 < 2) {
        for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 4; ++ax0_ax1_fused_outer_outer_outer_outer) {
          __pipeline_memcpy_async(A_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 4096, A + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) >> 2) * 16384 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8 + 64, 16);
        }
      }
      for (int ax0_ax1_fused_outer_outer_outer_outer = 0; ax0_ax1_fused_outer_outer_outer_outer < 2; ++ax0_ax1_fused_outer_outer_outer_outer) {
        __pipeline_memcpy_async(B_shared + ax0_ax1_fused_outer_outer_outer_outer * 1024 + tz * 256 + (ty >> 1) * 64 + (((ty & 1) * 4 + tx) ^ ((tz & 1) * 4 + (ty >> 1))) * 8 + 2048, B + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx + 3) & 3) * 8192 + ax0_ax1_fused_outer_outer_outer_outer * 4096 + tz * 1024 + (ty >> 1) * 256 + (ty & 1) * 32 + tx * 8 + 64, 16);
      }
      __pipeline_commit();
    }
    if (i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx < 8) {
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2) = make_float2(C[0], C[1]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 1024) = make_float2(C[2], C[3]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 8) = make_float2(C[4], C[5]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 1032) = make_float2(C[6], C[7]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 16) = make_float2(C[8], C[9]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 1040) = make_float2(C[10], C[11]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 24) = make_float2(C[12], C[13]);
      *(float2*)(D + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) >> 2) * 8192 + tz * 2048 + ty * 128 + ((i_outer_outer_outer_outer_j_outer_outer_outer_fused_outer * 3 + bx) & 3) * 32 + tx * 2 + 1048) = make_float2(C[14], C[15]);
    }
  }
}
