// matmul_large_shared_tiles_cuda_kernel0(A, B, C) grid (2, 2, 1) block (4, 4, 1) shared 65536
extern "C" __global__ void __launch_bounds__(16)
matmul_large_shared_tiles_cuda_kernel0(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  extern __shared__ __align__(16) unsigned char dynamic_shared[];
  float* const A_shared = (float*)(dynamic_shared);
  float* const B_shared = (float*)(dynamic_shared + 32768);
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  if (ty == 0) {
    for (int ax0_ax1_fused_outer_outer = 0; ax0_ax1_fused_outer_outer < 512; ++ax0_ax1_fused_outer_outer) {
      *(float4*)(A_shared + ax0_ax1_fused_outer_outer * 16 + tx * 4) = *(const float4*)(A + by * 8192 + ax0_ax1_fused_outer_outer * 16 + tx * 4);
    }
  }
  if (ty == 0) {
    for (int ax0_ax1_fused_outer_outer = 0; ax0_ax1_fused_outer_outer < 512; ++ax0_ax1_fused_outer_outer) {
      *(float4*)(B_shared + ax0_ax1_fused_outer_outer * 16 + tx * 4) = *(const float4*)(B + (ax0_ax1_fused_outer_outer >> 2) * 128 + bx * 64 + (ax0_ax1_fused_outer_outer & 3) * 16 + tx * 4);
    }
  }
  __syncthreads();
  for (int i_inner_inner = 0; i_inner_inner < 16; ++i_inner_inner) {
    for (int j_inner_inner = 0; j_inner_inner < 16; ++j_inner_inner) {
      C[by * 8192 + ty * 2048 + i_inner_inner * 128 + bx * 64 + tx * 16 + j_inner_inner] = 0.0f;
      for (int k = 0; k < 128; ++k) {
        C[by * 8192 + ty * 2048 + i_inner_inner * 128 + bx * 64 + tx * 16 + j_inner_inner] += A_shared[ty * 2048 + i_inner_inner * 128 + k] * B_shared[k * 64 + tx * 16 + j_inner_inner];
      }
    }
  }
}
