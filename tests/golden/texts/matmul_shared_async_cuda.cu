// matmul_shared_async_cuda_kernel0(A, B, C) grid (4, 4, 1) block (64, 1, 1) shared 0
#include <cuda_pipeline.h>

extern "C" __global__ void __launch_bounds__(64)
matmul_shared_async_cuda_kernel0(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  __shared__ __align__(16) float A_shared[384];
  __shared__ __align__(16) float B_shared[384];
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  __builtin_assume(0 <= bx && bx < 4);
  __builtin_assume(0 <= by && by < 4);
  __builtin_assume(0 <= tx && tx < 64);
  float C_local[4];
  #pragma unroll
  for (int i_c_init = 0; i_c_init < 2; ++i_c_init) {
    #pragma unroll
    for (int j_c_init = 0; j_c_init < 2; ++j_c_init) {
      C_local[i_c_init * 2 + j_c_init] = 0.0f;
    }
  }
  __pipeline_memcpy_async(A_shared + tx * 2, A + by * 1024 + (tx >> 2) * 64 + (tx & 3) * 2, 8);
  __pipeline_memcpy_async(B_shared + tx * 2, B + (tx >> 3) * 64 + bx * 16 + (tx & 7) * 2, 8);
  __pipeline_commit();
  __pipeline_memcpy_async(A_shared + tx * 2 + 128, A + by * 1024 + (tx >> 2) * 64 + (tx & 3) * 2 + 8, 8);
  __pipeline_memcpy_async(B_shared + tx * 2 + 128, B + (tx >> 3) * 64 + bx * 16 + (tx & 7) * 2 + 512, 8);
  __pipeline_commit();
  for (int k_outer = 0; k_outer < 8; ++k_outer) {
    __pipeline_wait_prior(1);
    __syncthreads();
    if (k_outer < 6) {
      __pipeline_memcpy_async(A_shared + (k_outer + 2) % 3 * 128 + tx * 2, A + by * 1024 + (tx >> 2) * 64 + k_outer * 8 + (tx & 3) * 2 + 16, 8);
      __pipeline_memcpy_async(B_shared + (k_outer + 2) % 3 * 128 + tx * 2, B + k_outer * 512 + (tx >> 3) * 64 + bx * 16 + (tx & 7) * 2 + 1024, 8);
    }
    __pipeline_commit();
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[k_outer % 3 * 128 + (tx >> 3) * 16 + i_c * 8] * B_shared[k_outer % 3 * 128 + (tx & 7) * 2 + j_c];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[k_outer % 3 * 128 + (tx >> 3) * 16 + i_c * 8 + 1] * B_shared[k_outer % 3 * 128 + (tx & 7) * 2 + j_c + 16];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[k_outer % 3 * 128 + (tx >> 3) * 16 + i_c * 8 + 2] * B_shared[k_outer % 3 * 128 + (tx & 7) * 2 + j_c + 32];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[k_outer % 3 * 128 + (tx >> 3) * 16 + i_c * 8 + 3] * B_shared[k_outer % 3 * 128 + (tx & 7) * 2 + j_c + 48];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[k_outer % 3 * 128 + (tx >> 3) * 16 + i_c * 8 + 4] * B_shared[k_outer % 3 * 128 + (tx & 7) * 2 + j_c + 64];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[k_outer % 3 * 128 + (tx >> 3) * 16 + i_c * 8 + 5] * B_shared[k_outer % 3 * 128 + (tx & 7) * 2 + j_c + 80];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[k_outer % 3 * 128 + (tx >> 3) * 16 + i_c * 8 + 6] * B_shared[k_outer % 3 * 128 + (tx & 7) * 2 + j_c + 96];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[k_outer % 3 * 128 + (tx >> 3) * 16 + i_c * 8 + 7] * B_shared[k_outer % 3 * 128 + (tx & 7) * 2 + j_c + 112];
      }
    }
  }
  #pragma unroll
  for (int i_inner_inner = 0; i_inner_inner < 2; ++i_inner_inner) {
    *(float2*)(C + by * 1024 + (tx >> 3) * 128 + i_inner_inner * 64 + bx * 16 + (tx & 7) * 2) = make_float2(C_local[i_inner_inner * 2], C_local[i_inner_inner * 2 + 1]);
  }
}
