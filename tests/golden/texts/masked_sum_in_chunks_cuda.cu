// masked_sum_in_chunks_cuda_kernel0(X, W, S) grid (4, 1, 1) block (16, 1, 1) shared 0
#include <cuda_pipeline.h>

extern "C" __global__ void __launch_bounds__(16)
masked_sum_in_chunks_cuda_kernel0(const float* __restrict__ X, const float* __restrict__ W, float* __restrict__ S) {
  __shared__ __align__(16) float W_shared[24];
  const int bx = blockIdx.x;
  const int tx = threadIdx.x;
  __builtin_assume(0 <= bx && bx < 4);
  __builtin_assume(0 <= tx && tx < 16);
  const int block_x = 3 - bx;
  S[block_x * 16 + tx] = 0.0f;
  if (tx < 8) {
    __pipeline_memcpy_async(W_shared + tx, W + tx, 4);
  }
  __pipeline_commit();
  if (tx < 8) {
    __pipeline_memcpy_async(W_shared + tx + 8, W + tx + 8, 4);
  }
  __pipeline_commit();
  for (int k_outer = 0; k_outer < block_x * 2 + 2; ++k_outer) {
    __pipeline_wait_prior(1);
    __syncthreads();
    if (k_outer < block_x * 2) {
      if (tx < 8) {
        __pipeline_memcpy_async(W_shared + (k_outer + 2) % 3 * 8 + tx, W + k_outer * 8 + tx + 16, 4);
      }
    }
    __pipeline_commit();
    for (int k_inner = 0; k_inner < 8; ++k_inner) {
      S[block_x * 16 + tx] += (k_outer * 8 + k_inner < block_x * 16 + tx + 1) ? X[block_x * 1024 + tx * 64 + k_outer * 8 + k_inner] * W_shared[k_outer % 3 * 8 + k_inner] : 0.0f;
    }
  }
}
