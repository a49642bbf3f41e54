// matmul_shared_two_blocks_cuda_kernel0(A, B, C) grid (4, 4, 1) block (64, 1, 1) shared 0
extern "C" __global__ void __launch_bounds__(64, 2)
matmul_shared_two_blocks_cuda_kernel0(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
  __shared__ __align__(16) float A_shared[128];
  __shared__ __align__(16) float B_shared[128];
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  float C_local[4];
  #pragma unroll
  for (int i_c_init = 0; i_c_init < 2; ++i_c_init) {
    #pragma unroll
    for (int j_c_init = 0; j_c_init < 2; ++j_c_init) {
      C_local[i_c_init * 2 + j_c_init] = 0.0f;
    }
  }
  for (int k_outer = 0; k_outer < 8; ++k_outer) {
    __syncthreads();
    for (int ax0_ax1_fused_outer = 0; ax0_ax1_fused_outer < 2; ++ax0_ax1_fused_outer) {
      A_shared[ax0_ax1_fused_outer * 64 + tx] = A[by * 1024 + ax0_ax1_fused_outer * 512 + (tx >> 3) * 64 + k_outer * 8 + (tx & 7)];
    }
    for (int ax0_ax1_fused_outer = 0; ax0_ax1_fused_outer < 2; ++ax0_ax1_fused_outer) {
      B_shared[ax0_ax1_fused_outer * 64 + tx] = B[k_outer * 512 + ax0_ax1_fused_outer * 256 + (tx >> 4) * 64 + bx * 16 + (tx & 15)];
    }
    __syncthreads();
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[(tx >> 3) * 16 + i_c * 8] * B_shared[(tx & 7) * 2 + j_c];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[(tx >> 3) * 16 + i_c * 8 + 1] * B_shared[(tx & 7) * 2 + j_c + 16];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[(tx >> 3) * 16 + i_c * 8 + 2] * B_shared[(tx & 7) * 2 + j_c + 32];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[(tx >> 3) * 16 + i_c * 8 + 3] * B_shared[(tx & 7) * 2 + j_c + 48];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[(tx >> 3) * 16 + i_c * 8 + 4] * B_shared[(tx & 7) * 2 + j_c + 64];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[(tx >> 3) * 16 + i_c * 8 + 5] * B_shared[(tx & 7) * 2 + j_c + 80];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[(tx >> 3) * 16 + i_c * 8 + 6] * B_shared[(tx & 7) * 2 + j_c + 96];
      }
    }
    #pragma unroll
    for (int i_c = 0; i_c < 2; ++i_c) {
      #pragma unroll
      for (int j_c = 0; j_c < 2; ++j_c) {
        C_local[i_c * 2 + j_c] += A_shared[(tx >> 3) * 16 + i_c * 8 + 7] * B_shared[(tx & 7) * 2 + j_c + 112];
      }
    }
  }
  #pragma unroll
  for (int i_inner_inner = 0; i_inner_inner < 2; ++i_inner_inner) {
    *(float2*)(C + by * 1024 + (tx >> 3) * 128 + i_inner_inner * 64 + bx * 16 + (tx & 7) * 2) = make_float2(C_local[i_inner_inner * 2], C_local[i_inner_inner * 2 + 1]);
  }
}
