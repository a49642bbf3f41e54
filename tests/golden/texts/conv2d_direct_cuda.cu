// conv2d_direct_cuda_kernel0(data, kernel, compute) grid (2, 2, 1) block (14, 7, 1) shared 0
extern "C" __global__ void __launch_bounds__(98)
conv2d_direct_cuda_kernel0(
    const float* __restrict__ data,
    const float* __restrict__ kernel,
    float* __restrict__ compute) {
  __shared__ __align__(16) float pad_temp_shared[288];
  __shared__ __align__(16) float kernel_shared[72];
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  const int ty = threadIdx.y;
  __builtin_assume(0 <= bx && bx < 2);
  __builtin_assume(0 <= by && by < 2);
  __builtin_assume(0 <= tx && tx < 14);
  __builtin_assume(0 <= ty && ty < 7);
  float compute_local[4];
  #pragma unroll
  for (int f_c_init = 0; f_c_init < 2; ++f_c_init) {
    compute_local[f_c_init] = 0.0f;
    compute_local[f_c_init + 2] = 0.0f;
  }
  for (int rc_outer = 0; rc_outer < 2; ++rc_outer) {
    __syncthreads();
    #pragma unroll
    for (int ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer = 0; ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer < 3; ++ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer) {
      if (ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 98 + ty * 14 + tx < 288) {
        pad_temp_shared[ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 98 + ty * 14 + tx] = (bx * 7 + (ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 6 + ((ty * 14 + ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 2 + tx) >> 4)) % 9 >= 1 && bx * 7 + (ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 6 + ((ty * 14 + ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 2 + tx) >> 4)) % 9 < 15 && ((ty * 14 + ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 2 + tx) & 15) >= 1 && ((ty * 14 + ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 2 + tx) & 15) < 15) ? data[rc_outer * 392 + (ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 98 + ty * 14 + tx) / 144 * 196 + bx * 98 + (ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 6 + ((ty * 14 + ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 2 + tx) >> 4)) % 9 * 14 + ((ty * 14 + ax0_ax1_fused_ax2_fused_ax3_fused_outer_outer * 2 + tx) & 15) - 15] : 0.0f;
      }
    }
    if (ty * 14 + tx < 72 && ty < 6) {
      kernel_shared[ty * 14 + tx] = kernel[by * 144 + (ty * 14 + tx) / 18 * 36 + rc_outer * 18 + (ty * 14 + tx) % 18];
    }
    __syncthreads();
    for (int rc_inner = 0; rc_inner < 2; ++rc_inner) {
      for (int ry = 0; ry < 3; ++ry) {
        #pragma unroll
        for (int rx = 0; rx < 3; ++rx) {
          #pragma unroll
          for (int f_c = 0; f_c < 2; ++f_c) {
            compute_local[f_c] += pad_temp_shared[rc_inner * 144 + ty * 16 + ry * 16 + tx + rx] * kernel_shared[f_c * 18 + rc_inner * 9 + ry * 3 + rx];
            compute_local[f_c + 2] += pad_temp_shared[rc_inner * 144 + ty * 16 + ry * 16 + tx + rx] * kernel_shared[f_c * 18 + rc_inner * 9 + ry * 3 + rx + 36];
          }
        }
      }
    }
  }
  #pragma unroll
  for (int f_inner = 0; f_inner < 2; ++f_inner) {
    compute[by * 784 + f_inner * 196 + bx * 98 + ty * 14 + tx] = compute_local[f_inner];
    compute[by * 784 + f_inner * 196 + bx * 98 + ty * 14 + tx + 392] = compute_local[f_inner + 2];
  }
}
